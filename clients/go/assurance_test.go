package gatehouse

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	tokenv1 "gatehouse.example/gatehouse/internal/gen/gatehouse/tokenclient/v1"
)

func TestTheLevelOfAnAnswer(t *testing.T) {
	for _, row := range []struct {
		acr   string
		amr   []string
		level AssuranceLevel
		err   error
	}{
		{"urn:gatehouse:acr:1", []string{"pwd"}, OneFactor, nil},
		{"urn:gatehouse:acr:2", []string{"pwd", "otp", "mfa"}, TwoFactors, nil},
		{"urn:gatehouse:acr:3", []string{"hwk", "user", "mfa"}, Passkey, nil},
		{"urn:gatehouse:acr:1", []string{"mfa"}, OneFactor, nil},
		{"", []string{"pwd", "mfa"}, 0, ErrInvalid},
		{"urn:gatehouse:acr:4", []string{"mfa"}, 0, ErrInvalid},
		{"urn:gatehouse:acr:0", nil, 0, ErrInvalid},
		{"2", nil, 0, ErrInvalid},
	} {
		answer := answerFor(time.Hour)
		answer.Principal.Acr, answer.Principal.Amr = row.acr, row.amr
		principal, err := decode(answer)
		if err != row.err || principal.ACR != row.level {
			t.Error(row, principal.ACR, err)
		}
	}
}

func TestADemand(t *testing.T) {
	now := time.Now()
	for _, row := range []struct {
		demand AssuranceDemand
		acr    AssuranceLevel
		age    time.Duration
		isMet  bool
	}{
		{AssuranceDemand{}, OneFactor, 24 * time.Hour, true},
		{AssuranceDemand{ACR: TwoFactors}, OneFactor, 0, false},
		{AssuranceDemand{ACR: TwoFactors}, TwoFactors, 24 * time.Hour, true},
		{AssuranceDemand{ACR: TwoFactors}, Passkey, 24 * time.Hour, true},
		{AssuranceDemand{ACR: Passkey}, TwoFactors, 0, false},
		{AssuranceDemand{ACR: TwoFactors, MaxAge: new(5 * time.Minute)}, TwoFactors, 5 * time.Minute, true},
		{AssuranceDemand{ACR: TwoFactors, MaxAge: new(5 * time.Minute)}, TwoFactors, 5*time.Minute + 1, false},
		{AssuranceDemand{ACR: TwoFactors, MaxAge: new(5 * time.Minute)}, OneFactor, 0, false},
		{AssuranceDemand{ACR: OneFactor, MaxAge: new(time.Duration(0))}, OneFactor, 0, true},
		{AssuranceDemand{ACR: OneFactor, MaxAge: new(time.Duration(0))}, OneFactor, time.Second, false},
		{AssuranceDemand{ACR: OneFactor, MaxAge: new(time.Hour)}, OneFactor, -clockSkew, true},
		{AssuranceDemand{ACR: OneFactor, MaxAge: new(time.Hour)}, OneFactor, -clockSkew - 1, false},
	} {
		principal := Principal{ACR: row.acr, AuthTime: now.Add(-row.age)}
		if row.demand.IsMet(principal, now) != row.isMet {
			t.Error(row)
		}
	}
}

func TestAHandlerDemandsALevel(t *testing.T) {
	verifier, fake, _ := start(t)
	demand := AssuranceDemand{ACR: TwoFactors, MaxAge: new(5 * time.Minute)}
	reached := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	call := func(handler http.Handler, token string) *httptest.ResponseRecorder {
		request := httptest.NewRequest(http.MethodPost, "/", nil)
		request.Header.Set("Authorization", "Bearer "+token)
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, request)
		return response
	}
	answerWith := func(acr string, age time.Duration) {
		fake.answer(func() (*tokenv1.VerifyTokenResponse, error) {
			answer := answerFor(time.Hour)
			answer.Principal.Acr = acr
			answer.Principal.AuthTime = timestamppb.New(time.Now().Add(-age))
			return answer, nil
		})
	}
	handler := RequireBearer(verifier, Authenticated, RequireAssurance(demand, reached))
	for token, row := range map[string]struct {
		acr    string
		age    time.Duration
		status int
	}{
		"a.b.low":   {"urn:gatehouse:acr:1", 0, 401},
		"a.b.old":   {"urn:gatehouse:acr:2", time.Hour, 401},
		"a.b.fresh": {"urn:gatehouse:acr:2", time.Minute, 200},
	} {
		answerWith(row.acr, row.age)
		response := call(handler, token)
		if response.Code != row.status {
			t.Error(token, response.Code)
		}
		if row.status == 200 {
			continue
		}
		const details = `{"code":"step_up_required","details":{"acr":2,"maxAgeSeconds":300,"methods":["passkey","totp","recovery_code"]}}`
		const challenge = `Bearer error="insufficient_user_authentication", acr_values="urn:gatehouse:acr:2", max_age=300`
		if response.Header().Get("WWW-Authenticate") != challenge || !strings.Contains(response.Body.String(), details) {
			t.Error(token, response.Header(), response.Body)
		}
	}
	if response := call(RequireAssurance(demand, reached), "a.b.fresh"); response.Code != 401 {
		t.Error("without RequireBearer", response.Code)
	}
}

func TestTheMethodsOfAStepUp(t *testing.T) {
	for _, row := range []struct {
		wanted, current AssuranceLevel
		methods         []string
	}{
		{OneFactor, OneFactor, []string{"passkey", "totp", "recovery_code", "password"}},
		{TwoFactors, OneFactor, []string{"passkey", "totp", "recovery_code"}},
		{OneFactor, TwoFactors, []string{"passkey", "totp", "recovery_code"}},
		{OneFactor, Passkey, []string{"passkey"}},
		{Passkey, OneFactor, []string{"passkey"}},
	} {
		details := AssuranceDemand{ACR: row.wanted}.details(row.current)
		if _, hasAge := details["maxAgeSeconds"]; hasAge || !slices.Equal(details["methods"].([]string), row.methods) {
			t.Error(row, details)
		}
	}
}

func TestTheAgeOfAProofCountsByTheClockOfTokenService(t *testing.T) {
	for name, aheadBy := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		verifier, fake, clock := start(t)
		message := heartbeat(1)
		message.ReadAt = timestamppb.New(time.Now().Add(aheadBy))
		fake.send <- message
		eventually(t, func() bool { return lastSequence(verifier) == 1 })
		if away := verifier.Now().Sub(time.Now().Add(aheadBy)); away.Abs() > time.Minute {
			t.Error(name, away)
		}
		// In silence this machine's clock counts if it is later, because it goes on while the machine is suspended.
		clock.advance(2 * time.Hour)
		latest := time.Now().Add(max(aheadBy, 0) + 2*time.Hour)
		if away := verifier.Now().Sub(latest); away.Abs() > time.Minute {
			t.Error(name, "in silence", away)
		}
	}
}
