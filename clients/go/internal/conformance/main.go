// A service behind the module, for clients/conformance.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"gatehouse.example/gatehouse"
)

const service = "gatehouse.conformance.v1.ConformanceService"

var (
	anybody = gatehouse.RouteAuth{AnyUser: true, Scopes: []string{"payments:read"}}
	fresh   = gatehouse.AssuranceDemand{ACR: gatehouse.OneFactor, MaxAge: new(300 * time.Second)}
	admin   = gatehouse.RouteAuth{Roles: []gatehouse.Role{gatehouse.RoleAdmin}}
)

func main() {
	if err := run(); err != nil {
		slog.Error("stopped", "error", err)
		os.Exit(1)
	}
}

func run() error {
	timeoutMs, _ := strconv.Atoi(os.Getenv("CALL_TIMEOUT_MS")) // 0: the module's own
	verifier, err := gatehouse.NewVerifier(gatehouse.Options{
		Address:       os.Getenv("TOKEN_SERVICE_ADDRESS"),
		Audience:      os.Getenv("TOKEN_AUDIENCE"),
		AcceptsIssuer: os.Getenv("ACCEPTS_ISSUER") == "true",
		CallTimeout:   time.Duration(timeoutMs) * time.Millisecond,
		Logger:        slog.New(slog.DiscardHandler),
		TLS: gatehouse.TLSFiles{
			CertFile: os.Getenv("TLS_CERT_FILE"),
			KeyFile:  os.Getenv("TLS_KEY_FILE"),
			CAFile:   os.Getenv("TLS_CA_FILE"),
		},
	})
	if err != nil {
		return err
	}
	defer verifier.Close()
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(web, routes(verifier)) }()
	rpc, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpcServer(verifier)
	go func() { _ = server.Serve(rpc) }()
	fmt.Printf("{\"http\":\"http://%s\",\"grpc\":\"%s\"}\n", web.Addr(), rpc.Addr())

	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		var ms int64
		if _, err := fmt.Sscanf(commands.Text(), "jump %d", &ms); err != nil {
			return err
		}
		jumpWallClock(time.Duration(ms) * time.Millisecond)
		fmt.Println("jumped")
	}
	return commands.Err()
}

func caller(ctx context.Context) []byte {
	principal, _ := gatehouse.PrincipalIn(ctx)
	text, _ := json.Marshal(map[string]any{
		"kind": principal.Kind, "userId": principal.UserID, "sessionId": principal.SessionID,
		"role": principal.Role, "clientId": principal.ClientID, "scopes": principal.Scopes,
	})
	return text
}

func routes(verifier *gatehouse.Verifier) http.Handler {
	routes := http.NewServeMux()
	answer := http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		_, _ = response.Write(caller(request.Context()))
	})
	routes.Handle("GET /whoami", gatehouse.RequireBearer(verifier, anybody, answer))
	routes.Handle("GET /admin", gatehouse.RequireBearer(verifier, admin, answer))
	routes.Handle("GET /fresh", gatehouse.RequireBearer(verifier, anybody, gatehouse.RequireAssurance(fresh, answer)))
	routes.HandleFunc("GET /ready", func(response http.ResponseWriter, _ *http.Request) {
		if verifier.Ready() != nil {
			response.WriteHeader(http.StatusServiceUnavailable)
			_, _ = response.Write([]byte(`{"error":{"code":"service_unavailable"}}`))
			return
		}
		_, _ = response.Write([]byte("{}"))
	})
	return routes
}

func grpcServer(verifier *gatehouse.Verifier) *grpc.Server {
	methods := gatehouse.Methods{
		"/" + service + "/WhoAmI": anybody,
		"/" + service + "/Admin":  admin,
		"/" + service + "/Watch":  anybody,
	}
	server := grpc.NewServer(
		grpc.UnaryInterceptor(gatehouse.UnaryInterceptor(verifier, methods)),
		grpc.StreamInterceptor(gatehouse.StreamInterceptor(verifier, methods)),
	)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: service,
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			{MethodName: "WhoAmI", Handler: unary("WhoAmI")},
			{MethodName: "Admin", Handler: unary("Admin")},
			{MethodName: "Unlisted", Handler: unary("Unlisted")},
		},
		Streams: []grpc.StreamDesc{{StreamName: "Watch", ServerStreams: true, Handler: watch}},
	}, nil)
	return server
}

// unary is what generated code does for a method.
func unary(name string) grpc.MethodHandler {
	return func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		request := new(emptypb.Empty)
		if err := decode(request); err != nil {
			return nil, err
		}
		info := &grpc.UnaryServerInfo{FullMethod: "/" + service + "/" + name}
		return intercept(ctx, request, info, func(ctx context.Context, _ any) (any, error) {
			return wrapperspb.String(string(caller(ctx))), nil
		})
	}
}

func watch(_ any, stream grpc.ServerStream) error {
	if err := stream.RecvMsg(new(emptypb.Empty)); err != nil {
		return err
	}
	return stream.SendMsg(wrapperspb.String(string(caller(stream.Context()))))
}
