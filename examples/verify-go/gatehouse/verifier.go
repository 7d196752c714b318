// Package gatehouse verifies Gatehouse access tokens in a Go service.
package gatehouse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"google.golang.org/grpc"

	tokenv1 "gatehouse.example/verify-go/gen/gatehouse/token/v1"
)

var (
	// ErrInvalid refuses a token that is not one of ours, or not whole.
	ErrInvalid = errors.New("the token is invalid")
	// ErrExpired refuses a token that was good once.
	ErrExpired = errors.New("the token has expired")
	// ErrRevoked refuses a token whose session has ended, or whose key was revoked.
	ErrRevoked = errors.New("the token is revoked")
	// ErrUnavailable neither accepts nor refuses: the token's state cannot be known now. Answer 503, never 401.
	ErrUnavailable = errors.New("the token cannot be verified now")
)

const (
	defaultMaxCachedTokens = 50_000
	defaultCallTimeout     = 800 * time.Millisecond
	maxCallsInFlight       = 1_000
	maxTokenBytes          = 4096
)

// tokenShape is the shape of every token and API key of ours; anything else needs no call to be refused.
var tokenShape = regexp.MustCompile(`^(?:[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+|gh_[0-9a-f]{32}_[A-Za-z0-9_-]{43})$`)

// Options of a Verifier.
type Options struct {
	// Address of token-service: host:port. A name with several addresses is balanced round robin.
	Address string
	// TLS names the certificate of this process; token-service must list it in VERIFIERS.
	TLS TLSFiles
	// Audience is this service's name in the gateway's routes file: tokens for others, also for the issuer, are invalid.
	// Empty: tokens for the issuer are verified.
	Audience string
	// AcceptsIssuer accepts tokens for the issuer as well, while a service that runs gets its audience.
	AcceptsIssuer bool
	// MaxCachedTokens bounds the memory, about 1 KiB a token. 0 means 50,000.
	MaxCachedTokens int
	// CallTimeout bounds one VerifyToken. 0 means 800 ms.
	CallTimeout time.Duration
	// Logger, or nil for slog.Default().
	Logger *slog.Logger
}

// Verifier verifies access tokens. A token's first sight is a VerifyToken call; after that it is answered from memory
// until it expires, checked each time against the revocations that WatchRevocations tells. While token-service has
// been silent for 3 s memory is not trusted and every token is asked for. Safe for concurrent use.
type Verifier struct {
	client      tokenv1.TokenServiceClient
	options     Options
	callTimeout time.Duration
	logger      *slog.Logger
	now         func() time.Time

	known      *tokenCache
	revoked    *revocations
	distrusted sync.Once

	mutex  sync.Mutex
	asking map[string]*question

	ctx  context.Context // of everything that no single caller waits for; ends with Close
	stop func()
}

// question is a VerifyToken call that several callers may be waiting for.
type question struct {
	done      chan struct{}
	principal Principal
	err       error
}

// NewVerifier connects when first used. Close it in the end.
func NewVerifier(options Options) (*Verifier, error) {
	connection, err := connect(options.Address, options.TLS)
	if err != nil {
		return nil, err
	}
	verifier := newVerifier(connection, options, time.Now)
	stop := verifier.stop
	verifier.stop = func() {
		stop()
		_ = connection.Close()
	}
	return verifier, nil
}

func newVerifier(connection grpc.ClientConnInterface, options Options, now func() time.Time) *Verifier {
	ctx, cancel := context.WithCancel(context.Background())
	verifier := &Verifier{
		client:      tokenv1.NewTokenServiceClient(connection),
		options:     options,
		callTimeout: cmp.Or(options.CallTimeout, defaultCallTimeout),
		logger:      cmp.Or(options.Logger, slog.Default()),
		now:         now,
		known:       newTokenCache(cmp.Or(options.MaxCachedTokens, defaultMaxCachedTokens)),
		revoked:     newRevocations(maxRevocations),
		asking:      map[string]*question{},
		ctx:         ctx,
	}
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		verifier.watch(ctx)
	}()
	verifier.stop = func() {
		cancel()
		<-watching
	}
	return verifier
}

// Verify says whose the token is, or ErrInvalid, ErrExpired, ErrRevoked or (wrapped) ErrUnavailable.
func (v *Verifier) Verify(ctx context.Context, token string) (Principal, error) {
	principal, isKnown := v.known.get(token)
	if !isKnown {
		if len(token) > maxTokenBytes || !tokenShape.MatchString(token) {
			return Principal{}, ErrInvalid
		}
		return v.askOnce(ctx, token)
	}
	now := v.now()
	switch {
	case v.revoked.hasAny(principal) && principal.KeyID == "":
		v.known.remove(token)
		return v.askOnce(ctx, token) // the API key may live on as another credential
	case v.revoked.hasAny(principal):
		v.known.remove(token)
		return Principal{}, ErrRevoked
	case !principal.ExpiresAt.After(now):
		v.known.remove(token)
		return v.askOnce(ctx, token) // token-service says when a token is over, at first sight and afterwards
	case !v.revoked.isFresh(now):
		return v.askOnce(ctx, token)
	default:
		return principal, nil
	}
}

// Ready is an error until the revocation log is fully known, and while token-service is silent: a readiness check.
func (v *Verifier) Ready() error {
	if !v.revoked.isFresh(v.now()) {
		return fmt.Errorf("%w: token-service is silent", ErrUnavailable)
	}
	return nil
}

// Close ends the stream and the connection. Nothing can be verified afterwards.
func (v *Verifier) Close() { v.stop() }

// askOnce has one call in flight a token. The call belongs to no single caller: one that gives up takes it from nobody.
func (v *Verifier) askOnce(ctx context.Context, token string) (Principal, error) {
	pending, err := v.question(token)
	if err != nil {
		return Principal{}, err
	}
	select {
	case <-pending.done:
		return pending.principal, pending.err
	case <-ctx.Done():
		return Principal{}, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
}

func (v *Verifier) question(token string) (*question, error) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if pending, ok := v.asking[token]; ok {
		return pending, nil
	}
	if len(v.asking) >= maxCallsInFlight {
		return nil, fmt.Errorf("%w: too many tokens are being verified", ErrUnavailable)
	}
	pending := &question{done: make(chan struct{})}
	v.asking[token] = pending
	go func() {
		pending.principal, pending.err = v.ask(token)
		v.mutex.Lock()
		delete(v.asking, token)
		v.mutex.Unlock()
		close(pending.done)
	}()
	return pending, nil
}

func (v *Verifier) ask(token string) (Principal, error) {
	ctx, cancel := context.WithTimeout(v.ctx, v.callTimeout)
	defer cancel()
	audience := v.options.audienceFor(token)
	answer, err := v.client.VerifyToken(ctx, &tokenv1.VerifyTokenRequest{Token: token, Audience: audience})
	if err != nil {
		return Principal{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	principal, err := decode(answer)
	if err == nil && !isFor(answer, audience) {
		err = ErrInvalid
	}
	if err != nil {
		v.known.remove(token)
		return Principal{}, err
	}
	// A revocation that arrived while the answer was under way is newer than the answer.
	if v.revoked.hasAny(principal) {
		return Principal{}, ErrRevoked
	}
	v.known.put(token, principal)
	return principal, nil
}
