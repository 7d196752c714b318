package gatehouse

import (
	tokenv1 "gatehouse.example/gatehouse/internal/gen/gatehouse/tokenclient/v1"
)

// audienceFor is whose token this must be. Nil means the issuer's.
func (options Options) audienceFor(token string) *string {
	if options.Audience == "" || options.AcceptsIssuer && claimedAudience(token) != options.Audience {
		return nil
	}
	return &options.Audience
}

// isFor denies an answer that does not repeat the audience: it is not the answer to this question.
func isFor(answer *tokenv1.VerifyTokenResponse, audience *string) bool {
	return audience == nil || answer.GetPrincipal().GetAudience() == *audience
}
