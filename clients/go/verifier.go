// Package gatehouse verifies Gatehouse access tokens in a Go service.
package gatehouse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	tokenv1 "gatehouse.example/gatehouse/internal/gen/gatehouse/tokenclient/v1"
	"gatehouse.example/gatehouse/internal/seam"
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
	maxRefusedTokens       = 2_000
	// keepRefused is short: a refusal may be temporary, for clock skew or a new key.
	keepRefused = 10 * time.Second
	// keyWait is for a token of an unknown key: a stream that lags as much as it may reports the next read this late. Memory is
	// trusted longer.
	keyWait     = maxMessageAge + heartbeatEvery
	maxKeyWaits = 5_000
)

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
	// MaxRevocations bounds what is known to be revoked; beyond it every token needs a call. 0 means 1,000,000.
	MaxRevocations int
	// CallTimeout bounds one VerifyToken. 0 means 800 ms.
	CallTimeout time.Duration
	// Logger, or nil for slog.Default().
	Logger *slog.Logger
}

// Verifier verifies access tokens. A token's first sight is a VerifyToken call; after that it is answered from memory
// until it expires, checked each time against the revocations that WatchRevocations reports. While token-service has
// been silent for 3 s memory is not trusted and every token is asked for. Safe for concurrent use.
type Verifier struct {
	client      tokenv1.TokenServiceClient
	options     Options
	callTimeout time.Duration
	logger      *slog.Logger
	now         func() time.Time
	isConnected func() bool
	messageAt   atomic.Pointer[time.Time] // of the last message of the stream; has a monotonic reading

	known      *memory[cached]
	refused    *memory[refusal]
	keyWaits   chan struct{} // a place for each
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

// NewVerifier connects when first used. Close it in the end. Options below zero and TLS files that cannot be used are errors.
func NewVerifier(options Options) (*Verifier, error) {
	if options.MaxCachedTokens < 0 || options.MaxRevocations < 0 || options.CallTimeout < 0 {
		return nil, errors.New("MaxCachedTokens, MaxRevocations and CallTimeout cannot be negative; 0 is the default")
	}
	lines := &lines{open: map[*line]struct{}{}}
	connection, err := connect(options.Address, options.TLS, lines)
	if err != nil {
		return nil, err
	}
	isConnected := func() bool { return connection.GetState() == connectivity.Ready }
	verifier := newVerifier(connection, options, time.Now, func() { lines.dropQuiet(quiet) }, isConnected)
	stop := verifier.stop
	verifier.stop = func() {
		stop()
		_ = connection.Close()
	}
	return verifier, nil
}

func init() {
	seam.NewVerifier = func(connection grpc.ClientConnInterface) any {
		options := Options{Logger: slog.New(slog.DiscardHandler)}
		return newVerifier(connection, options, time.Now, func() {}, func() bool { return true })
	}
}

// newVerifier begins to watch. onSilence is called when a stream has been silent.
func newVerifier(connection grpc.ClientConnInterface, options Options, now func() time.Time, onSilence func(), isConnected func() bool) *Verifier {
	ctx, cancel := context.WithCancel(context.Background())
	verifier := &Verifier{
		client:      tokenv1.NewTokenServiceClient(connection),
		options:     options,
		callTimeout: cmp.Or(options.CallTimeout, defaultCallTimeout),
		logger:      cmp.Or(options.Logger, slog.Default()),
		now:         now,
		isConnected: isConnected,
		known:       newMemory[cached](cmp.Or(options.MaxCachedTokens, defaultMaxCachedTokens)),
		refused:     newMemory[refusal](maxRefusedTokens),
		keyWaits:    make(chan struct{}, maxKeyWaits),
		revoked:     newRevocations(cmp.Or(options.MaxRevocations, maxRevocations)),
		asking:      map[string]*question{},
		ctx:         ctx,
	}
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		verifier.watch(ctx, onSilence)
	}()
	verifier.stop = func() {
		cancel()
		<-watching
	}
	return verifier
}

// Verify says whose the token is, or ErrInvalid, ErrExpired, ErrRevoked or (wrapped) ErrUnavailable.
func (v *Verifier) Verify(ctx context.Context, token string) (Principal, error) {
	now := v.now()
	entry, isKnown := v.known.get(token)
	if !isKnown {
		return v.verifyUnknown(ctx, token, now)
	}
	principal := entry.principal
	switch {
	case v.revoked.hasAny(principal) && principal.KeyID == "":
		v.known.remove(token)
		return v.askOnce(ctx, token, now) // the API key may live on as another credential
	case v.revoked.hasAny(principal):
		v.known.remove(token)
		return Principal{}, ErrRevoked
	case !entry.isAlive(now) || !v.revoked.keepsSince(entry.askedAt, now):
		v.known.remove(token)
		return v.askOnce(ctx, token, now) // token-service says whether it has expired or was revoked
	case !v.revoked.isFresh(now, principal):
		return v.askOnce(ctx, token, now)
	default:
		return principal, nil
	}
}

// Now is the time of token-service, at most 3 s ahead: for AssuranceDemand.IsMet. This machine's clock is used only in silence.
func (v *Verifier) Now() time.Time { return v.revoked.serverNow(v.now()) }

func (v *Verifier) screen(token string) screening {
	rules, serverNow := v.revoked.known(v.now())
	return v.options.screen(token, rules, serverNow)
}

func (v *Verifier) verifyUnknown(ctx context.Context, token string, now time.Time) (Principal, error) {
	switch v.screen(token) {
	case isInvalid:
		return Principal{}, ErrInvalid
	case isExpired:
		return Principal{}, ErrExpired
	case hasUnknownKey:
		return v.awaitKey(ctx, token, now)
	}
	if refusal, isKnown := v.refused.get(token); isKnown && now.Before(refusal.until) {
		return Principal{}, refusal.err
	}
	return v.askOnce(ctx, token, now)
}

// awaitKey waits for the next read of token-service, because the key may be new.
func (v *Verifier) awaitKey(ctx context.Context, token string, now time.Time) (Principal, error) {
	if v.isCutOff() {
		return Principal{}, fmt.Errorf("%w: token-service is silent", ErrUnavailable)
	}
	select {
	case v.keyWaits <- struct{}{}:
	default:
		return Principal{}, fmt.Errorf("%w: too many tokens of unknown keys", ErrUnavailable)
	}
	waiting, cancel := context.WithTimeout(ctx, keyWait)
	isRead := v.revoked.awaitRead(waiting, now)
	cancel()
	<-v.keyWaits
	switch {
	case !isRead:
		return Principal{}, fmt.Errorf("%w: token-service is silent", ErrUnavailable)
	case v.screen(token) == hasUnknownKey:
		return Principal{}, ErrInvalid
	default:
		return v.askOnce(ctx, token, now)
	}
}

// Ready is for readiness: an error until all revocations have been read, and while token-service is silent. After a revocation
// of an unknown kind it goes on to pass: every token then needs a call, which works.
func (v *Verifier) Ready() error {
	if !v.revoked.isHeard(v.now()) {
		return fmt.Errorf("%w: token-service is silent", ErrUnavailable)
	}
	return nil
}

// Close ends the stream and the connection. Nothing can be verified afterwards.
func (v *Verifier) Close() { v.stop() }

// askOnce has one call in flight a token. The call belongs to no single caller: one that gives up takes it from nobody.
// since is when the caller looked into memory.
func (v *Verifier) askOnce(ctx context.Context, token string, since time.Time) (Principal, error) {
	pending, err := v.question(token, since)
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

func (v *Verifier) question(token string, since time.Time) (*question, error) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if pending, ok := v.asking[token]; ok {
		return pending, nil
	}
	// A call that ended after the caller looked into memory is as good as one that is still under way.
	if entry, ok := v.known.get(token); ok && !entry.answeredAt.Before(since) && !v.revoked.hasAny(entry.principal) {
		answered := &question{done: make(chan struct{}), principal: entry.principal}
		close(answered.done)
		return answered, nil
	}
	if v.isCutOff() {
		return nil, fmt.Errorf("%w: token-service is silent", ErrUnavailable)
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

// isCutOff says that a call could only wait for its deadline: the stream, once heard, has been silent, and its connection is gone.
// The stream goes on to try.
func (v *Verifier) isCutOff() bool {
	messageAt := v.messageAt.Load()
	return messageAt != nil && v.now().Sub(*messageAt) > silence && !v.isConnected()
}

func (v *Verifier) ask(token string) (Principal, error) {
	ctx, cancel := context.WithTimeout(v.ctx, v.callTimeout)
	defer cancel()
	askedAt, audience := v.now(), v.options.audienceFor(token)
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
		v.refused.put(token, refusal{err, v.now().Add(keepRefused)})
		return Principal{}, err
	}
	// A revocation that arrived while the answer was under way is newer than the answer.
	if v.revoked.hasAny(principal) {
		return Principal{}, ErrRevoked
	}
	v.known.put(token, cached{principal, askedAt, v.now(), askedAt.Add(lifeOf(answer))})
	return principal, nil
}

// lifeOf counts from the moment of the call.
func lifeOf(answer *tokenv1.VerifyTokenResponse) time.Duration {
	return min(time.Duration(answer.GetExpiresInMs())*time.Millisecond, maxKeep)
}
