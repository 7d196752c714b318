package gatehouse

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoregistry"

	tokenv1 "gatehouse.example/gatehouse/internal/gen/gatehouse/tokenclient/v1"
)

const issuer = "https://auth.example"

var knownKey, newKey = strings.Repeat("K", 43), strings.Repeat("N", 43)

// jwt has the header and the claims of a good token, with the changes. Nil takes a member away.
func jwt(header, claims map[string]any) string {
	part := func(values, changes map[string]any) string {
		maps.Copy(values, changes)
		maps.DeleteFunc(values, func(_ string, value any) bool { return value == nil })
		text, _ := json.Marshal(values)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	exp := time.Now().Add(10 * time.Minute).Unix()
	return part(map[string]any{"alg": "EdDSA", "typ": "at+jwt", "kid": knownKey}, header) + "." +
		part(map[string]any{"iss": issuer, "aud": issuer, "exp": exp}, claims) + "." + strings.Repeat("s", signatureCharacters)
}

func sendRules(t *testing.T, verifier *Verifier, fake *fakeTokenService, sequence uint64, keyIDs ...string) {
	t.Helper()
	message := heartbeat(sequence)
	message.Rules = &tokenv1.TokenRules{Issuer: issuer}
	for _, keyID := range keyIDs {
		message.Rules.Keys = append(message.Rules.Keys, &tokenv1.VerificationKey{KeyId: keyID, Algorithm: "EdDSA"})
	}
	fake.send <- message
	eventually(t, func() bool { return lastSequence(verifier) == sequence })
}

func TestTextThatCannotBeATokenIsRefusedWithoutACall(t *testing.T) {
	rules := &tokenRules{issuer, map[string]string{knownKey: "EdDSA"}}
	serverNow := time.Now()
	end := func(ago time.Duration) map[string]any {
		return map[string]any{"exp": float64(serverNow.Add(-ago).UnixMilli()) / 1_000}
	}
	for name, row := range map[string]struct {
		text string
		want screening
	}{
		"a good token":             {jwt(nil, nil), isPlausible},
		"another type":             {jwt(map[string]any{"typ": "rt+jwt"}, nil), isInvalid},
		"a fourth member":          {jwt(map[string]any{"jku": "x"}, nil), isInvalid},
		"no key":                   {jwt(map[string]any{"kid": nil}, nil), isInvalid},
		"a key of another form":    {jwt(map[string]any{"kid": "K"}, nil), isInvalid},
		"a key that is no text":    {jwt(map[string]any{"kid": 1}, nil), isInvalid},
		"another algorithm":        {jwt(map[string]any{"alg": "ES256"}, nil), isInvalid},
		"no algorithm":             {jwt(map[string]any{"alg": "none", "kid": newKey}, nil), isInvalid},
		"an unknown key":           {jwt(map[string]any{"kid": newKey}, nil), hasUnknownKey},
		"another issuer":           {jwt(nil, map[string]any{"iss": "https://other.example"}), isInvalid},
		"another audience":         {jwt(nil, map[string]any{"aud": "ledger"}), isInvalid},
		"several audiences":        {jwt(nil, map[string]any{"aud": []string{issuer}}), isInvalid},
		"no end":                   {jwt(nil, map[string]any{"exp": nil}), isInvalid},
		"an end that is text":      {jwt(nil, map[string]any{"exp": "9999999999"}), isInvalid},
		"expired for certain":      {jwt(nil, end(expiredForCertain)), isExpired},
		"perhaps expired":          {jwt(nil, end(expiredForCertain-time.Second)), isPlausible},
		"a short signature":        {jwt(nil, nil)[1:], isInvalid},
		"a header that is no JSON": {"aaaa." + strings.SplitN(jwt(nil, nil), ".", 2)[1], isInvalid},
		"base64 in another form":   {strings.Replace(jwt(nil, nil), ".", "B.", 1), isInvalid},
		"an API key":               {apiKey, isPlausible},
		"not the shape of a token": {"a.b", isInvalid},
		"more than any token is":   {"a." + strings.Repeat("b", maxTokenBytes) + ".c", isInvalid},
	} {
		if got := (Options{}).screen(row.text, rules, serverNow); got != row.want {
			t.Error(name, got)
		}
	}
	own := Options{Audience: "payments"}
	for text, want := range map[string]screening{
		jwt(nil, nil): isInvalid, jwt(nil, map[string]any{"aud": "payments"}): isPlausible, apiKey: isInvalid,
	} {
		if got := own.screen(text, rules, serverNow); got != want {
			t.Error("of payments", text, got)
		}
	}
	if got := (Options{}).screen("a.b.c", nil, time.Time{}); got != isPlausible {
		t.Error("without rules", got)
	}
}

func TestATokenOfAnUnknownKeyWaitsForTheNextRead(t *testing.T) {
	verifier, fake, _ := start(t)
	sendRules(t, verifier, fake, 1, knownKey)
	verify := func(token string) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := verifier.Verify(t.Context(), token)
			done <- err
		}()
		return done
	}
	good := verify(jwt(map[string]any{"kid": newKey}, nil))
	strange := verify(jwt(map[string]any{"kid": strings.Repeat("X", 43)}, nil))
	eventually(t, func() bool { return len(verifier.keyWaits) == 2 })
	time.Sleep(5 * time.Millisecond) // elapsed_ms is in whole milliseconds: a read in that of the question counts as older
	sendRules(t, verifier, fake, 2, knownKey, newKey)
	if err := <-good; err != nil {
		t.Error(err)
	}
	if err := <-strange; !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	expectCalls(t, fake, 1)
	// In silence nobody knows.
	if err := <-verify(jwt(map[string]any{"kid": strings.Repeat("Y", 43)}, nil)); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
	for range maxKeyWaits {
		verifier.keyWaits <- struct{}{}
	}
	if err := <-verify(jwt(map[string]any{"kid": strings.Repeat("Z", 43)}, nil)); !errors.Is(err, ErrUnavailable) {
		t.Error("without a place", err)
	}
	expectCalls(t, fake, 1)
}

func TestARefusalIsKeptForTenSeconds(t *testing.T) {
	verifier, fake, clock := start(t)
	fake.answer(func() (*tokenv1.VerifyTokenResponse, error) { return &tokenv1.VerifyTokenResponse{}, nil })
	for range 3 {
		expect(t, verifier, ErrInvalid)
	}
	expectCalls(t, fake, 1)
	clock.advance(keepRefused)
	expect(t, verifier, ErrInvalid)
	expectCalls(t, fake, 2)
}

func TestAnotherStreamWithoutRulesTakesThemAway(t *testing.T) {
	now := time.Now()
	revoked := newRevocations(10)
	revoked.begin()
	message := heartbeat(1)
	message.Rules = &tokenv1.TokenRules{Issuer: issuer}
	_ = revoked.apply(message, now, now)
	_ = revoked.apply(heartbeat(1), now, now)
	if rules, _ := revoked.known(now); rules == nil {
		t.Fatal("a heartbeat took the rules away")
	}
	if rules, _ := revoked.known(now.Add(staleAfter + 1)); rules != nil {
		t.Fatal("rules in silence")
	}
	revoked.begin()
	_ = revoked.apply(heartbeat(1), now, now)
	if rules, _ := revoked.known(now); rules != nil {
		t.Fatal("the rules of a token-service of another version stay")
	}
}

func TestTheModuleClaimsNoNameOfTheContract(t *testing.T) {
	if _, err := protoregistry.GlobalFiles.FindFileByPath("gatehouse/token/v1/principal.proto"); !errors.Is(err, protoregistry.NotFound) {
		t.Error("a service that generates this file itself would not start:", err)
	}
	if _, err := protoregistry.GlobalFiles.FindDescriptorByName("gatehouse.token.v1.Principal"); !errors.Is(err, protoregistry.NotFound) {
		t.Error("a service that generates this message itself would not start:", err)
	}
}

func tokenFor(audience string) string {
	return "h." + base64.RawURLEncoding.EncodeToString([]byte(`{"aud":"`+audience+`"}`)) + ".s"
}

func TestAVerifierWithAnAudienceAsksForItsOwnTokens(t *testing.T) {
	const issuer = "https://auth.example"
	own := Options{Audience: "payments"}
	changing := Options{Audience: "payments", AcceptsIssuer: true}
	for name, row := range map[string]struct {
		options Options
		token   string
		asked   string // empty: for the issuer
	}{
		"none, the issuer's":       {Options{}, tokenFor(issuer), ""},
		"none, own":                {Options{}, tokenFor("payments"), ""},
		"own, own":                 {own, tokenFor("payments"), "payments"},
		"own, the issuer's":        {own, tokenFor(issuer), "payments"},
		"own, no token":            {own, goodToken, "payments"},
		"changing, own":            {changing, tokenFor("payments"), "payments"},
		"changing, the issuer's":   {changing, tokenFor(issuer), ""},
		"changing, another's":      {changing, tokenFor("ledger"), ""},
		"changing, not base64":     {changing, "h.a.s", ""},
		"changing, no JSON":        {changing, goodToken, ""},
		"changing, an empty claim": {changing, tokenFor(""), ""},
	} {
		verifier, fake, _ := startWith(t, row.options)
		_, _ = verifier.Verify(t.Context(), row.token)
		if asked := fake.asked.Load(); asked == nil || asked.GetAudience() != row.asked || (asked.Audience == nil) != (row.asked == "") {
			t.Error(name, asked)
		}
	}
}

func TestAnAnswerThatDoesNotRepeatTheAudienceIsRefused(t *testing.T) {
	verifier, fake, _ := startWith(t, Options{Audience: "payments"})
	for number, audience := range []string{"", "https://auth.example", "payments"} {
		fake.answer(func() (*tokenv1.VerifyTokenResponse, error) {
			answer := answerFor(time.Hour)
			answer.Principal.Audience = audience
			return answer, nil
		})
		_, err := verifier.Verify(t.Context(), tokenFor("payments")+strconv.Itoa(number))
		if isAccepted := audience == "payments"; isAccepted != (err == nil) || !isAccepted && !errors.Is(err, ErrInvalid) {
			t.Error(audience, err)
		}
	}
}
