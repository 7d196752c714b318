package gatehouse

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	tokenv1 "gatehouse.example/verify-go/gen/gatehouse/token/v1"
)

// Level says how the user of a session authenticated.
type Level int

const (
	OneFactor  Level = 1 // a password, or a login at an identity provider
	TwoFactors Level = 2 // one factor, and TOTP or a recovery code
	Passkey    Level = 3 // a passkey with user verification
)

const acrPrefix = "urn:gatehouse:acr:"

// levelOf derives the level of a token-service without `acr` from the methods. An unknown level means "deny".
func levelOf(message *tokenv1.Principal) (Level, bool) {
	if message.GetAcr() == "" {
		if slices.Contains(message.GetAmr(), "mfa") {
			return TwoFactors, true
		}
		return OneFactor, true
	}
	for _, level := range []Level{OneFactor, TwoFactors, Passkey} {
		if message.GetAcr() == fmt.Sprint(acrPrefix, int(level)) {
			return level, true
		}
	}
	return 0, false
}

// Demand is what a handler asks of the session.
type Demand struct {
	ACR    Level
	MaxAge time.Duration // of the last proof of the session's level; 0: any
}

// IsMet decides from the principal alone. A client, which has no session to step up, meets none.
func (demand Demand) IsMet(principal Principal, now time.Time) bool {
	if principal.Kind == KindClient {
		return false
	}
	isFresh := demand.MaxAge == 0 || now.Sub(principal.AuthTime) <= demand.MaxAge
	return principal.ACR >= demand.ACR && isFresh
}

// Challenge is the WWW-Authenticate of a refusal (RFC 9470 §3).
func (demand Demand) Challenge() string {
	challenge := fmt.Sprintf(`Bearer error="insufficient_user_authentication", acr_values="%s%d"`, acrPrefix, demand.ACR)
	if demand.MaxAge == 0 {
		return challenge
	}
	return fmt.Sprintf("%s, max_age=%d", challenge, int(demand.MaxAge.Seconds()))
}

// RequireAssurance lets only sessions through that meet the demand. Others get 401 step_up_required, and
// clients 403 user_required. It belongs inside RequireBearer.
func RequireAssurance(demand Demand, next http.Handler) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		principal, isKnown := PrincipalOf(request)
		if !isKnown {
			refuse(response, http.StatusUnauthorized, "token_missing", "Bearer")
			return
		}
		if principal.Kind == KindClient {
			refuse(response, http.StatusForbidden, "user_required", "")
			return
		}
		if !demand.IsMet(principal, time.Now()) {
			refuse(response, http.StatusUnauthorized, "step_up_required", demand.Challenge())
			return
		}
		next.ServeHTTP(response, request)
	})
}
