package gatehouse

import (
	"encoding/json"
	"net/http"
)

// RequireBearer lets only requests of callers through whom auth admits. Others get 401 with the challenge of RFC 6750 §3, 403,
// or 503 while the token's state cannot be known.
func RequireBearer(verifier *Verifier, auth Auth, next http.Handler) http.Handler {
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
			refuse(response, http.StatusForbidden, codeForbidden, "", nil)
		default:
			response.Header().Set("Retry-After", "1")
			refuse(response, http.StatusServiceUnavailable, codeUnavailable, "", nil)
		}
	})
}

// PrincipalOf says who makes a request that RequireBearer let through.
func PrincipalOf(request *http.Request) (Principal, bool) { return PrincipalIn(request.Context()) }

// refuse answers with details unless they are nil.
func refuse(response http.ResponseWriter, status int, code, challenge string, details map[string]any) {
	header := response.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	if challenge != "" {
		header.Set("WWW-Authenticate", challenge)
	}
	failure := map[string]any{"code": code}
	if details != nil {
		failure["details"] = details
	}
	response.WriteHeader(status)
	_ = json.NewEncoder(response).Encode(map[string]any{
		"success": false,
		"message": http.StatusText(status),
		"error":   failure,
	})
}
