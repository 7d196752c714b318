// Package gatehousetest has a verifier for the tests of a service, which needs no token-service.
package gatehousetest

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"gatehouse.example/gatehouse"
	tokenv1 "gatehouse.example/gatehouse/internal/gen/gatehouse/tokenclient/v1"
	"gatehouse.example/gatehouse/internal/seam"
)

const (
	life           = 15 * time.Minute
	heartbeatEvery = 500 * time.Millisecond
	patience       = 10 * time.Second
	clockSkew      = 5 * time.Second // that a verifier allows
)

var roleName = regexp.MustCompile("^[A-Z][A-Z0-9_]{0,31}$")

// amrOf is as after a login with a password, with a second factor, and with a passkey.
var amrOf = map[gatehouse.AssuranceLevel][]string{
	gatehouse.OneFactor: {"pwd"}, gatehouse.TwoFactors: {"pwd", "otp", "mfa"}, gatehouse.Passkey: {"hwk", "user", "mfa"},
}

// User is whom a token speaks for. Fields are those of a gatehouse.Principal; without the optional ones each token has its own.
type User struct {
	UserID    string
	Role      gatehouse.Role
	ACR       gatehouse.AssuranceLevel // optional: OneFactor
	AMR       []string                 // optional
	AuthTime  time.Time                // optional: now
	SessionID string                   // optional
	ExpiresAt time.Time                // optional: in 15 minutes
}

// Client is a program that a token speaks for.
type Client struct {
	ClientID  string
	Scopes    []string
	SessionID string    // optional: its credential's id
	ExpiresAt time.Time // optional: in 15 minutes
}

// Verifier is a gatehouse.Verifier whose token-service is the test. It accepts only the tokens that it has issued itself.
// Its clock is time.Now, also that of a bubble of testing/synctest. Safe for concurrent use.
type Verifier struct {
	*gatehouse.Verifier
	t testing.TB

	mutex         sync.Mutex
	isUnavailable bool
	issued        map[string]*tokenv1.Principal
	revokedIDs    map[string]bool // sessions, and tokens of clients
}

// NewVerifier is closed when the test ends. It panics outside a test.
func NewVerifier(t testing.TB) *Verifier {
	if !testing.Testing() {
		panic("gatehousetest is for tests: use gatehouse.NewVerifier")
	}
	t.Helper()
	v := &Verifier{t: t, issued: map[string]*tokenv1.Principal{}, revokedIDs: map[string]bool{}}
	v.Verifier = seam.NewVerifier(connection{v}).(*gatehouse.Verifier)
	t.Cleanup(v.Close)
	for deadline := time.Now().Add(patience); v.Ready() != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the verifier has not become ready")
		}
	}
	return v
}

// Issue returns an access token for `Authorization: Bearer`. The test fails if no token could have such a principal.
func (v *Verifier) Issue(user User) string {
	v.t.Helper()
	acr := cmp.Or(user.ACR, gatehouse.OneFactor)
	amr, isLevel := amrOf[acr]
	switch {
	case user.UserID == "":
		v.t.Fatal("a user needs a UserID")
	case !roleName.MatchString(string(user.Role)):
		v.t.Fatalf("a user needs a role, named as USER or MERCHANT_CLERK, not %q", user.Role)
	case !isLevel:
		v.t.Fatalf("ACR is 1, 2 or 3, not %d", user.ACR)
	}
	if user.AMR != nil {
		amr = user.AMR
	}
	return v.issue(user.SessionID, user.ExpiresAt, &tokenv1.Principal{
		Kind: tokenv1.PrincipalKind_PRINCIPAL_KIND_USER, UserId: user.UserID, Role: string(user.Role),
		Acr: fmt.Sprint("urn:gatehouse:acr:", int(acr)), Amr: slices.Clone(amr), AuthTime: timestamppb.New(orNow(user.AuthTime)),
	})
}

// IssueToClient is Issue for a client.
func (v *Verifier) IssueToClient(client Client) string {
	v.t.Helper()
	if client.ClientID == "" || len(client.Scopes) == 0 {
		v.t.Fatal("a client needs a ClientID and at least one scope")
	}
	return v.issue(client.SessionID, client.ExpiresAt, &tokenv1.Principal{
		Kind:   tokenv1.PrincipalKind_PRINCIPAL_KIND_CLIENT,
		UserId: client.ClientID, ClientId: client.ClientID, Scopes: slices.Clone(client.Scopes),
	})
}

func (v *Verifier) issue(sessionID string, expiresAt time.Time, principal *tokenv1.Principal) string {
	if expiresAt.IsZero() {
		expiresAt = time.Now().Add(life)
	}
	principal.SessionId, principal.TokenId, principal.KeyId = cmp.Or(sessionID, rand.Text()), rand.Text(), "test"
	principal.IssuedAt, principal.ExpiresAt = timestamppb.Now(), timestamppb.New(expiresAt)
	token := "test." + rand.Text() + ".token"
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.issued[token] = principal
	return token
}

// Revoke is as a logout: of a user it ends the session, with all of its tokens. Of a client it ends this token alone.
func (v *Verifier) Revoke(token string) {
	v.t.Helper()
	principal := v.principalOf(token)
	if principal.GetKind() == tokenv1.PrincipalKind_PRINCIPAL_KIND_CLIENT {
		v.RevokeSession(principal.GetTokenId())
		return
	}
	v.RevokeSession(principal.GetSessionId())
}

// RevokeSession ends a session. Of a client: its credential.
func (v *Verifier) RevokeSession(sessionID string) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.revokedIDs[sessionID] = true
}

// RevokeUser ends the sessions that the user has now, as after a change of the role.
func (v *Verifier) RevokeUser(userID string) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	for _, principal := range v.issued {
		if principal.GetKind() == tokenv1.PrincipalKind_PRINCIPAL_KIND_USER && principal.GetUserId() == userID {
			v.revokedIDs[principal.GetSessionId()] = true
		}
	}
}

// Expire is as if the token's time were over.
func (v *Verifier) Expire(token string) {
	v.t.Helper()
	expired := proto.CloneOf(v.principalOf(token))
	expired.ExpiresAt = timestamppb.New(time.Unix(0, 0))
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.issued[token] = expired
}

// SetAvailable(false) is as without token-service: every call is a 503 at once, and Ready fails after 3 s.
func (v *Verifier) SetAvailable(isAvailable bool) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.isUnavailable = !isAvailable
}

func (v *Verifier) principalOf(token string) *tokenv1.Principal {
	v.t.Helper()
	v.mutex.Lock()
	defer v.mutex.Unlock()
	principal := v.issued[token]
	if principal == nil {
		v.t.Fatal("this verifier has not issued the token")
	}
	return principal
}

func (v *Verifier) answer(token string) (*tokenv1.VerifyTokenResponse, error) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if v.isUnavailable {
		return nil, status.Error(codes.Unavailable, "the test says so")
	}
	principal := v.issued[token]
	switch {
	case principal == nil:
		return &tokenv1.VerifyTokenResponse{}, nil
	case v.revokedIDs[principal.GetSessionId()], v.revokedIDs[principal.GetTokenId()]:
		return &tokenv1.VerifyTokenResponse{Reason: tokenv1.InactiveReason_INACTIVE_REASON_REVOKED}, nil
	case !time.Now().Before(principal.GetExpiresAt().AsTime().Add(clockSkew)):
		return &tokenv1.VerifyTokenResponse{Reason: tokenv1.InactiveReason_INACTIVE_REASON_EXPIRED}, nil
	}
	// Without ExpiresInMs nothing is remembered, so the verifier asks at each call, and knows at once what the test has changed.
	return &tokenv1.VerifyTokenResponse{Active: true, Principal: proto.CloneOf(principal)}, nil
}

// connection is that to token-service, without a network.
type connection struct{ verifier *Verifier }

func (c connection) Invoke(_ context.Context, _ string, request, into any, _ ...grpc.CallOption) error {
	answer, err := c.verifier.answer(request.(*tokenv1.VerifyTokenRequest).GetToken())
	if err == nil {
		proto.Merge(into.(proto.Message), answer)
	}
	return err
}

func (c connection) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	if !strings.HasSuffix(method, "/WatchRevocations") {
		return nil, status.Error(codes.Unimplemented, method)
	}
	return &heartbeats{verifier: c.verifier, ctx: ctx, openedAt: time.Now()}, nil
}

// heartbeats reports no revocation, because each token is asked for.
type heartbeats struct {
	grpc.ClientStream // nil: the others are not called
	verifier          *Verifier
	ctx               context.Context
	openedAt          time.Time
	hasBegun          bool
}

func (*heartbeats) SendMsg(any) error { return nil }
func (*heartbeats) CloseSend() error  { return nil }

func (h *heartbeats) RecvMsg(into any) error {
	if h.hasBegun {
		select {
		case <-h.ctx.Done():
			return status.FromContextError(h.ctx.Err()).Err()
		case <-time.After(heartbeatEvery):
		}
	}
	h.hasBegun = true
	h.verifier.mutex.Lock()
	defer h.verifier.mutex.Unlock()
	if h.verifier.isUnavailable {
		return io.ErrUnexpectedEOF
	}
	message := into.(*tokenv1.WatchRevocationsResponse)
	message.CaughtUp, message.ElapsedMs = true, uint32(time.Since(h.openedAt).Milliseconds())
	return nil
}

func orNow(at time.Time) time.Time {
	if at.IsZero() {
		return time.Now()
	}
	return at
}
