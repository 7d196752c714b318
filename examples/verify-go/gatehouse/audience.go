package gatehouse

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	tokenv1 "gatehouse.example/verify-go/gen/gatehouse/token/v1"
)

// audienceFor is whose token this must be. Nil means the issuer's.
func (options Options) audienceFor(token string) *string {
	if options.Audience == "" || options.AcceptsIssuer && claimedAudience(token) != options.Audience {
		return nil
	}
	return &options.Audience
}

// isFor denies an answer that does not repeat the audience: a token-service of the version before has not checked it.
func isFor(answer *tokenv1.VerifyTokenResponse, audience *string) bool {
	return audience == nil || answer.GetPrincipal().GetAudience() == *audience
}

// claimedAudience is what the token says itself; nobody has checked it. Empty if it says nothing.
func claimedAudience(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		Audience string `json:"aud"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return ""
	}
	return claims.Audience
}
