package gatehouse

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
)

type principalKey struct{}

var (
	bearerScheme = regexp.MustCompile(`(?i)^bearer(?: |$)`)
	bearerToken  = regexp.MustCompile(`(?i)^bearer +([A-Za-z0-9\-._~+/]+=*)$`)
)

// RequireBearer lets only requests with a good access token through. Others get 401 with the challenge of RFC 6750 §3,
// or 503 while the token's state cannot be known.
func RequireBearer(verifier *Verifier, next http.Handler) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		values := request.Header.Values("Authorization")
		if len(values) == 0 || !bearerScheme.MatchString(values[0]) {
			refuse(response, http.StatusUnauthorized, "token_missing", "Bearer")
			return
		}
		found := bearerToken.FindStringSubmatch(values[0])
		if len(values) > 1 || found == nil {
			refuse(response, http.StatusUnauthorized, "token_invalid", `Bearer error="invalid_token"`)
			return
		}
		principal, err := verifier.Verify(request.Context(), found[1])
		switch {
		case err == nil:
			ctx := context.WithValue(request.Context(), principalKey{}, principal)
			next.ServeHTTP(response, request.WithContext(ctx))
		case errors.Is(err, ErrExpired):
			refuse(response, http.StatusUnauthorized, "token_expired", `Bearer error="invalid_token"`)
		case errors.Is(err, ErrInvalid), errors.Is(err, ErrRevoked):
			refuse(response, http.StatusUnauthorized, "token_invalid", `Bearer error="invalid_token"`)
		default:
			response.Header().Set("Retry-After", "1")
			refuse(response, http.StatusServiceUnavailable, "service_unavailable", "")
		}
	})
}

// PrincipalOf says who makes a request that RequireBearer let through.
func PrincipalOf(request *http.Request) (Principal, bool) {
	principal, ok := request.Context().Value(principalKey{}).(Principal)
	return principal, ok
}

func refuse(response http.ResponseWriter, status int, code, challenge string) {
	header := response.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	if challenge != "" {
		header.Set("WWW-Authenticate", challenge)
	}
	response.WriteHeader(status)
	_ = json.NewEncoder(response).Encode(map[string]any{
		"success": false,
		"message": http.StatusText(status),
		"error":   map[string]string{"code": code},
	})
}
