package gatehouse

import (
	"context"
	"net"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
)

const (
	check = "/grpc.health.v1.Health/Check"
	watch = "/grpc.health.v1.Health/Watch"
)

// callHealth calls a guarded service with the token, by a unary method or by a stream.
func callHealth(t *testing.T, verifier *Verifier, methods Methods, authorization string, isStream bool) error {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer(
		grpc.UnaryInterceptor(UnaryInterceptor(verifier, methods)),
		grpc.StreamInterceptor(StreamInterceptor(verifier, methods)),
	)
	healthv1.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	connection, err := grpc.NewClient("passthrough:///guarded",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	client := healthv1.NewHealthClient(connection)
	ctx := t.Context()
	if authorization != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", authorization)
	}
	if !isStream {
		_, err = client.Check(ctx, &healthv1.HealthCheckRequest{})
		return err
	}
	stream, err := client.Watch(ctx, &healthv1.HealthCheckRequest{})
	if err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}

func TestTheInterceptorsAnswer(t *testing.T) {
	everybody := Methods{check: Authenticated, watch: Authenticated}
	for name, row := range map[string]struct {
		methods       Methods
		authorization string
		code          codes.Code
		reason        string
	}{
		"a good token":       {everybody, "Bearer " + goodToken, codes.OK, ""},
		"no token":           {everybody, "", codes.Unauthenticated, "token_missing"},
		"not a token":        {everybody, "Bearer x", codes.Unauthenticated, "token_invalid"},
		"a public method":    {Methods{check: Public, watch: Public}, "", codes.OK, ""},
		"an unlisted method": {Methods{}, "Bearer " + goodToken, codes.PermissionDenied, "forbidden"},
		"another role":       {Methods{check: {Roles: []Role{RoleAdmin}}, watch: {Roles: []Role{RoleAdmin}}}, "Bearer " + goodToken, codes.PermissionDenied, "forbidden"},
	} {
		for _, isStream := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				verifier, _, _ := start(t)
				err := callHealth(t, verifier, row.methods, row.authorization, isStream)
				refusal := status.Convert(err)
				reason := ""
				for _, detail := range refusal.Details() {
					if info, ok := detail.(*errdetails.ErrorInfo); ok {
						reason = info.GetReason()
					}
				}
				if refusal.Code() != row.code || reason != row.reason {
					t.Fatal(err, reason)
				}
			})
		}
	}
}

func TestAnInterceptorSaysUnavailableWithoutACause(t *testing.T) {
	verifier, fake, _ := start(t)
	fake.answer(unavailable)
	err := callHealth(t, verifier, Methods{check: Authenticated}, "Bearer "+goodToken, false)
	if refusal := status.Convert(err); refusal.Code() != codes.Unavailable || refusal.Message() != "service_unavailable" {
		t.Fatal(err)
	}
}

func TestUsersGoByRoleAndClientsByScope(t *testing.T) {
	user := Principal{Kind: KindUser, Role: RoleUser, Scopes: []string{"payments:read"}}
	client := Principal{Kind: KindClient, Scopes: []string{"payments:read", "payments:write"}}
	for name, row := range map[string]struct {
		auth           RouteAuth
		user, isClient bool
	}{
		"nobody":        {RouteAuth{}, false, false},
		"every user":    {Authenticated, true, false},
		"a role":        {RouteAuth{Roles: []Role{RoleAdmin, RoleUser}}, true, false},
		"another role":  {RouteAuth{Roles: []Role{RoleAdmin}}, false, false},
		"a scope":       {RouteAuth{Scopes: []string{"payments:read"}}, false, true},
		"a scope more":  {RouteAuth{Scopes: []string{"payments:read", "refunds:write"}}, false, false},
		"both of these": {RouteAuth{Roles: []Role{RoleUser}, Scopes: []string{"payments:write"}}, true, true},
	} {
		if row.auth.Admits(user) != row.user || row.auth.Admits(client) != row.isClient {
			t.Error(name)
		}
	}
}
