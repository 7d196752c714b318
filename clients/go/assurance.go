package gatehouse

import (
	"fmt"
	"net/http"
	"time"

	tokenv1 "gatehouse.example/gatehouse/internal/gen/gatehouse/tokenclient/v1"
)

// AssuranceLevel says how the user of a session authenticated.
type AssuranceLevel int

const (
	OneFactor  AssuranceLevel = 1 // a password, or a login at an identity provider
	TwoFactors AssuranceLevel = 2 // one factor, and TOTP or a recovery code
	Passkey    AssuranceLevel = 3 // a passkey with user verification
)

const acrPrefix = "urn:gatehouse:acr:"

// levelOf reads `acr`. An unknown level means "deny".
func levelOf(message *tokenv1.Principal) (AssuranceLevel, bool) {
	for _, level := range []AssuranceLevel{OneFactor, TwoFactors, Passkey} {
		if message.GetAcr() == fmt.Sprint(acrPrefix, int(level)) {
			return level, true
		}
	}
	return 0, false
}

// AssuranceDemand is what a handler asks of the session.
type AssuranceDemand struct {
	ACR    AssuranceLevel
	MaxAge *time.Duration // of the last proof of the session's level; nil: any
}

// IsMet decides from the principal alone. Now is Verifier.Now, the time of token-service: this machine's clock may be wrong.
// A client, which has no session to step up, meets none.
func (demand AssuranceDemand) IsMet(principal Principal, now time.Time) bool {
	if principal.Kind == KindClient || principal.ACR < demand.ACR {
		return false
	}
	age := now.Sub(principal.AuthTime)
	return demand.MaxAge == nil || age >= -clockSkew && age <= *demand.MaxAge
}

// Challenge is the WWW-Authenticate of a refusal (RFC 9470 §3).
func (demand AssuranceDemand) Challenge() string {
	challenge := fmt.Sprintf(`Bearer error="insufficient_user_authentication", acr_values="%s%d"`, acrPrefix, demand.ACR)
	if demand.MaxAge == nil {
		return challenge
	}
	return fmt.Sprintf("%s, max_age=%d", challenge, int(demand.MaxAge.Seconds()))
}

// details say what a client has to prove, and how: the methods in the order in which it should offer them.
func (demand AssuranceDemand) details(current AssuranceLevel) map[string]any {
	methods := []string{"passkey"}
	// A lower proof does not make a higher level fresh.
	if target := max(demand.ACR, current); target <= OneFactor {
		methods = append(methods, "totp", "recovery_code", "password")
	} else if target == TwoFactors {
		methods = append(methods, "totp", "recovery_code")
	}
	details := map[string]any{"acr": demand.ACR, "methods": methods}
	if demand.MaxAge != nil {
		details["maxAgeSeconds"] = int(demand.MaxAge.Seconds())
	}
	return details
}

// RequireAssurance lets only sessions through that meet the demand. Others get 401 step_up_required, and
// clients 403 user_required. It belongs inside RequireBearer.
func RequireAssurance(demand AssuranceDemand, next http.Handler) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		admission, isKnown := admissionIn(request.Context())
		if !isKnown {
			refuse(response, http.StatusUnauthorized, codeMissing, "Bearer", nil)
			return
		}
		principal := admission.principal
		if principal.Kind == KindClient {
			refuse(response, http.StatusForbidden, codeUser, "", nil)
			return
		}
		if !demand.IsMet(principal, admission.at) {
			refuse(response, http.StatusUnauthorized, codeStepUp, demand.Challenge(), demand.details(principal.ACR))
			return
		}
		next.ServeHTTP(response, request)
	})
}
