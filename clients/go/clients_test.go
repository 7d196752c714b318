package gatehouse

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	tokenv1 "gatehouse.example/gatehouse/internal/gen/gatehouse/tokenclient/v1"
)

var apiKey = "gh_" + strings.Repeat("0a", 16) + "_" + strings.Repeat("A", 43)

func answerForClient() *tokenv1.VerifyTokenResponse {
	answer := answerFor(time.Hour)
	principal := answer.Principal
	principal.Kind, principal.Role, principal.AuthTime = tokenv1.PrincipalKind_PRINCIPAL_KIND_CLIENT, "", nil
	principal.UserId, principal.ClientId, principal.SessionId = "client-1", "client-1", "credential-1"
	principal.Scopes = []string{"payments:read"}
	return answer
}

func TestAClientIsDistinguishedFromAUser(t *testing.T) {
	client, err := decode(answerForClient())
	if err != nil || client.Kind != KindClient || client.ClientID != "client-1" || client.Role != "" ||
		client.UserID != "" || client.SessionID != "credential-1" ||
		!slices.Equal(client.Scopes, []string{"payments:read"}) {
		t.Fatal(client, err)
	}
	named := answerFor(time.Hour)
	named.Principal.Role = "SUPPORT"
	user, err := decode(named)
	if err != nil || user.Kind != KindUser || user.Role != "SUPPORT" || user.ClientID != "" || user.Scopes == nil || len(user.Scopes) != 0 {
		t.Fatal(user, err)
	}
}

func TestWhatIsMissingOrUnknownIsRefused(t *testing.T) {
	for name, change := range map[string]func(*tokenv1.Principal){
		"no scope":       func(p *tokenv1.Principal) { p.Scopes = nil },
		"another client": func(p *tokenv1.Principal) { p.ClientId = "client-2" },
		"a new kind":     func(p *tokenv1.Principal) { p.Kind = 9 },
		"no kind":        func(p *tokenv1.Principal) { p.Kind = 0 },
		"a bound token":  func(p *tokenv1.Principal) { p.Confirmation = &tokenv1.Confirmation{Jkt: "x"} },
		"no credential":  func(p *tokenv1.Principal) { p.SessionId = "" },
	} {
		answer := answerForClient()
		change(answer.Principal)
		if _, err := decode(answer); !errors.Is(err, ErrInvalid) {
			t.Error(name, err)
		}
	}
}

func TestATokenOfAClientEndsWithItsCredentialAndByItself(t *testing.T) {
	for _, revoked := range []string{"credential-1", "token-1", "origin-1"} {
		verifier, fake, _ := start(t)
		fake.answer(func() (*tokenv1.VerifyTokenResponse, error) {
			answer, origin := answerForClient(), "origin-1"
			answer.Principal.OriginTokenId = &origin
			return answer, nil
		})
		if _, err := verifier.Verify(context.Background(), goodToken); err != nil {
			t.Fatal(err)
		}
		fake.send <- endOfSession(1, revoked)
		eventually(t, func() bool { return lastSequence(verifier) == 1 })
		if _, err := verifier.Verify(context.Background(), goodToken); !errors.Is(err, ErrRevoked) {
			t.Error(revoked, err)
		}
	}
}

func TestARevokedAPIKeyIsAskedForAgain(t *testing.T) {
	verifier, fake, _ := start(t)
	answer := answerForClient()
	answer.Principal.KeyId = ""
	fake.answer(func() (*tokenv1.VerifyTokenResponse, error) { return answer, nil })
	verify := func() error {
		_, err := verifier.Verify(context.Background(), apiKey)
		return err
	}
	if err := errors.Join(verify(), verify()); err != nil {
		t.Fatal(err)
	}
	expectCalls(t, fake, 1)
	fake.send <- endOfSession(1, "credential-1")
	eventually(t, func() bool { return lastSequence(verifier) == 1 })
	// It lives on under another id.
	again := answerForClient()
	again.Principal.KeyId, again.Principal.SessionId = "", "credential-2"
	answer = again
	if err := verify(); err != nil {
		t.Fatal(err)
	}
	expectCalls(t, fake, 2)
	fake.answer(func() (*tokenv1.VerifyTokenResponse, error) { return &tokenv1.VerifyTokenResponse{}, nil })
	fake.send <- endOfSession(2, "credential-2")
	eventually(t, func() bool { return lastSequence(verifier) == 2 })
	if err := verify(); !errors.Is(err, ErrInvalid) {
		t.Fatal(err)
	}
}

func TestAClientMeetsNoDemand(t *testing.T) {
	client, _ := decode(answerForClient())
	if (AssuranceDemand{ACR: OneFactor, MaxAge: new(time.Hour)}).IsMet(client, time.Now()) {
		t.Fatal("a client's new token passed for a fresh proof")
	}
	handler := RequireAssurance(AssuranceDemand{ACR: OneFactor, MaxAge: new(time.Hour)}, http.NotFoundHandler())
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	request = request.WithContext(context.WithValue(request.Context(), admissionKey{}, admission{client, time.Now()}))
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, request)
	_, hasChallenge := response.Header()["Www-Authenticate"] // A token with more scopes would not do either.
	if response.Code != http.StatusForbidden || hasChallenge || !strings.Contains(response.Body.String(), "user_required") {
		t.Fatal(response.Code, response.Body)
	}
}
