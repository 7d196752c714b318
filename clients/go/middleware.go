package gatehouse

import (
	"encoding/json"
	"net/http"
)

// RequireBearer lets only requests of callers through whom auth admits. Others get 401 or 403 with the challenge of RFC 6750 §3,
// or 503 while the token's state cannot be known.
func RequireBearer(verifier *Verifier, auth RouteAuth, next http.Handler) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		principal, err := verifier.admit(request.Context(), auth, request.Header.Values("Authorization"))
		switch codeOf(err) {
		case "":
			next.ServeHTTP(response, request.WithContext(verifier.withPrincipal(request.Context(), principal)))
		case codeMissing:
			refuse(response, http.StatusUnauthorized, codeMissing, "Bearer", nil)
		case codeInvalid, codeExpired:
			refuse(response, http.StatusUnauthorized, codeOf(err), `Bearer error="invalid_token"`, nil)
		case codeForbidden:
			refuse(response, http.StatusForbidden, codeForbidden, `Bearer error="insufficient_scope"`, nil)
		default:
			refuse(response, http.StatusServiceUnavailable, codeUnavailable, "", nil)
		}
	})
}

// PrincipalOf says who makes a request that RequireBearer let through.
func PrincipalOf(request *http.Request) (Principal, bool) { return PrincipalIn(request.Context()) }

// messages of the refusals, as the gateway sends them.
var messages = map[string]string{
	codeMissing:     "The call needs an access token.",
	codeInvalid:     "The access token was not issued here, is malformed or has been revoked.",
	codeExpired:     "The access token has expired; refresh it.",
	codeStepUp:      "The call needs a stronger or more recent proof of who the user is; `details` says which. See `POST /auth/step-up`.",
	codeForbidden:   "The caller's role, or the client's scope, does not allow this call.",
	codeUser:        "The call needs a step-up or an approval, which only a user can give.",
	codeUnavailable: "A part of Gatehouse is temporarily unavailable; try again.",
}

// refuse answers with a challenge, and with details, unless they are empty. To HEAD, net/http sends no body.
func refuse(response http.ResponseWriter, status int, code, challenge string, details map[string]any) {
	header := response.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	if challenge != "" {
		header.Set("WWW-Authenticate", challenge)
	}
	if status == http.StatusServiceUnavailable {
		header.Set("Retry-After", "1")
	}
	failure := map[string]any{"code": code}
	if details != nil {
		failure["details"] = details
	}
	response.WriteHeader(status)
	_ = json.NewEncoder(response).Encode(map[string]any{"success": false, "message": messages[code], "error": failure})
}
