package gatehouse

import (
	"context"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Methods says who may call each gRPC method, by its full name: `/orders.v1.OrderService/ListOrders`. A method that is not in it
// is refused.
type Methods map[string]RouteAuth

// Public admits calls without a token to a method: `/grpc.health.v1.Health/Check`, for instance.
var Public = RouteAuth{isPublic: true}

// UnaryInterceptor lets only calls of callers through whom methods admit. PrincipalIn gives the handler who calls. Others get
// UNAUTHENTICATED, PERMISSION_DENIED or UNAVAILABLE, with the code as the reason of a google.rpc.ErrorInfo.
func UnaryInterceptor(verifier *Verifier, methods Methods) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		admitted, err := verifier.admitCall(ctx, methods, info.FullMethod)
		if err != nil {
			return nil, err
		}
		return next(admitted, request)
	}
}

// StreamInterceptor is UnaryInterceptor for streams. The token is verified when the stream begins.
func StreamInterceptor(verifier *Verifier, methods Methods) grpc.StreamServerInterceptor {
	return func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		admitted, err := verifier.admitCall(stream.Context(), methods, info.FullMethod)
		if err != nil {
			return err
		}
		return next(server, admittedStream{stream, admitted})
	}
}

type admittedStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s admittedStream) Context() context.Context { return s.ctx }

func (v *Verifier) admitCall(ctx context.Context, methods Methods, method string) (context.Context, error) {
	auth := methods[method]
	if auth.isPublic {
		return ctx, nil
	}
	principal, err := v.admit(ctx, auth, metadata.ValueFromIncomingContext(ctx, "authorization"))
	if err != nil {
		return nil, rpcError(err)
	}
	return v.withPrincipal(ctx, principal), nil
}

func rpcError(err error) error {
	code := codeOf(err)
	statusCode := codes.Unauthenticated
	switch code {
	case codeForbidden:
		statusCode = codes.PermissionDenied
	case codeUnavailable:
		statusCode = codes.Unavailable
	}
	// The causes stay here: they name addresses.
	refusal, detailsErr := status.New(statusCode, code).WithDetails(&errdetails.ErrorInfo{Reason: code, Domain: "gatehouse"})
	if detailsErr != nil {
		return status.Error(statusCode, code)
	}
	return refusal.Err()
}
