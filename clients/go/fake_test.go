package gatehouse

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/timestamppb"

	tokenv1 "gatehouse.example/gatehouse/internal/gen/gatehouse/tokenclient/v1"
)

const goodToken = "header.payload.signature"

// fakeTokenService answers as the test says.
type fakeTokenService struct {
	tokenv1.UnimplementedTokenServiceServer
	verify  atomic.Pointer[func() (*tokenv1.VerifyTokenResponse, error)]
	calls   atomic.Int32
	asked   atomic.Pointer[tokenv1.VerifyTokenRequest]
	resumed chan uint64 // what each watcher has applied
	send    chan *tokenv1.WatchRevocationsResponse
	breakUp chan struct{}
}

func (f *fakeTokenService) VerifyToken(_ context.Context, request *tokenv1.VerifyTokenRequest) (*tokenv1.VerifyTokenResponse, error) {
	f.calls.Add(1)
	f.asked.Store(request)
	return (*f.verify.Load())()
}

func (f *fakeTokenService) WatchRevocations(request *tokenv1.WatchRevocationsRequest, stream grpc.ServerStreamingServer[tokenv1.WatchRevocationsResponse]) error {
	f.resumed <- request.GetAfterSequence()
	began := time.Now()
	for {
		select {
		case message := <-f.send:
			message.ElapsedMs = uint32(time.Since(began).Milliseconds())
			if err := stream.Send(message); err != nil {
				return err
			}
		case <-f.breakUp:
			return nil
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (f *fakeTokenService) answer(verify func() (*tokenv1.VerifyTokenResponse, error)) {
	f.verify.Store(&verify)
}

// clock is the time plus what a test adds.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time                     { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) advance(by time.Duration)           { c.ahead.Add(int64(by)) }
func active() (*tokenv1.VerifyTokenResponse, error) { return answerFor(time.Hour), nil }

func answerFor(life time.Duration) *tokenv1.VerifyTokenResponse {
	now := time.Now()
	return &tokenv1.VerifyTokenResponse{Active: true, ExpiresInMs: uint32(max(life, 0).Milliseconds()), Principal: &tokenv1.Principal{
		Kind: tokenv1.PrincipalKind_PRINCIPAL_KIND_USER, UserId: "user-1", SessionId: "session-1", Role: "USER", TokenId: "token-1", KeyId: "key-1",
		Amr: []string{"pwd"}, Acr: "urn:gatehouse:acr:1", AuthTime: timestamppb.New(now), IssuedAt: timestamppb.New(now), ExpiresAt: timestamppb.New(now.Add(life)),
	}}
}

func endOfSession(sequence uint64, sessionID string) *tokenv1.WatchRevocationsResponse {
	return &tokenv1.WatchRevocationsResponse{Sequence: sequence, CaughtUp: true, Revocations: []*tokenv1.Revocation{{
		Sequence: sequence, Target: &tokenv1.Revocation_SessionId{SessionId: sessionID}, ExpiresAt: timestamppb.New(time.Now().Add(time.Hour)),
	}}}
}

func heartbeat(sequence uint64) *tokenv1.WatchRevocationsResponse {
	return &tokenv1.WatchRevocationsResponse{Sequence: sequence, CaughtUp: true}
}

// start runs a verifier against a fake over memory; it knows all revocations (there are none) when this returns.
func start(t *testing.T) (*Verifier, *fakeTokenService, *clock) {
	t.Helper()
	return startWith(t, Options{})
}

func startWith(t *testing.T, options Options) (*Verifier, *fakeTokenService, *clock) {
	t.Helper()
	fake := &fakeTokenService{
		resumed: make(chan uint64, 100), send: make(chan *tokenv1.WatchRevocationsResponse), breakUp: make(chan struct{}),
	}
	fake.answer(active)
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	tokenv1.RegisterTokenServiceServer(server, fake)
	go func() { _ = server.Serve(listener) }()
	connection, err := grpc.NewClient("passthrough:///fake",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
	)
	if err != nil {
		t.Fatal(err)
	}
	time := &clock{}
	options.Logger = slog.New(slog.DiscardHandler)
	verifier := newVerifier(connection, options, time.now, func() {}, func() bool { return true })
	t.Cleanup(sync.OnceFunc(func() {
		verifier.Close()
		_ = connection.Close()
		server.Stop()
	}))
	<-fake.resumed
	fake.send <- heartbeat(0)
	eventually(t, func() bool { return verifier.Ready() == nil })
	return verifier, fake, time
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("did not come true")
		}
	}
}
