package gatehouse

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"time"
)

// RouteAuth says who may call a route or a method. The zero value admits nobody.
type RouteAuth struct {
	AnyUser bool     // users of every role; no client
	Roles   []Role   // users with one of these
	Scopes  []string // clients with all of these; without any, no client

	isPublic bool
}

// Authenticated admits every user.
var Authenticated = RouteAuth{AnyUser: true}

// Admits says whether the principal may call. Users go by their role, clients by their scopes.
func (auth RouteAuth) Admits(principal Principal) bool {
	if principal.Kind == KindClient {
		isGranted := func(scope string) bool { return slices.Contains(principal.Scopes, scope) }
		return len(auth.Scopes) > 0 && !slices.ContainsFunc(auth.Scopes, func(scope string) bool { return !isGranted(scope) })
	}
	return auth.AnyUser || slices.Contains(auth.Roles, principal.Role)
}

var (
	errMissing   = errors.New("the call has no access token")
	errForbidden = errors.New("the caller may not do this")
)

// Codes of refusals, as in docs/errors.md.
const (
	codeMissing     = "token_missing"
	codeInvalid     = "token_invalid"
	codeExpired     = "token_expired"
	codeForbidden   = "forbidden"
	codeStepUp      = "step_up_required"
	codeUser        = "user_required"
	codeUnavailable = "service_unavailable"
)

// codeOf is empty without an error.
func codeOf(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errMissing):
		return codeMissing
	case errors.Is(err, ErrExpired):
		return codeExpired
	case errors.Is(err, ErrInvalid), errors.Is(err, ErrRevoked):
		return codeInvalid
	case errors.Is(err, errForbidden):
		return codeForbidden
	default:
		return codeUnavailable
	}
}

var (
	bearerScheme = regexp.MustCompile(`(?i)^bearer(?: |$)`)
	bearerToken  = regexp.MustCompile(`(?i)^bearer ([A-Za-z0-9\-._~+/]+=*)$`)
)

// admit takes all values of the header or of the metadata `authorization` (RFC 6750 §2.1). Of several nobody knows which counts.
func (v *Verifier) admit(ctx context.Context, auth RouteAuth, authorization []string) (Principal, error) {
	if !slices.ContainsFunc(authorization, bearerScheme.MatchString) {
		return Principal{}, errMissing
	}
	found := bearerToken.FindStringSubmatch(authorization[0])
	if len(authorization) > 1 || found == nil {
		return Principal{}, ErrInvalid
	}
	principal, err := v.Verify(ctx, found[1])
	if err == nil && !auth.Admits(principal) {
		err = errForbidden
	}
	return principal, err
}

type admissionKey struct{}

type admission struct {
	principal Principal
	at        time.Time // by the clock of token-service
}

func (v *Verifier) withPrincipal(ctx context.Context, principal Principal) context.Context {
	return context.WithValue(ctx, admissionKey{}, admission{principal, v.Now()})
}

func admissionIn(ctx context.Context) (admission, bool) {
	found, ok := ctx.Value(admissionKey{}).(admission)
	return found, ok
}

// PrincipalIn says who makes a call that RequireBearer or an interceptor let through.
func PrincipalIn(ctx context.Context) (Principal, bool) {
	found, ok := admissionIn(ctx)
	return found.principal, ok
}
