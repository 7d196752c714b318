package gatehouse

import (
	"encoding/base64"
	"errors"
	"strconv"
	"testing"
	"time"

	tokenv1 "gatehouse.example/gatehouse/internal/gen/gatehouse/tokenclient/v1"
)

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
