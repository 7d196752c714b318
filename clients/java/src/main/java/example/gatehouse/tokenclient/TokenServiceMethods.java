package example.gatehouse.tokenclient;

import com.google.protobuf.Message;
import gatehouse.token.v1.TokenServiceOuterClass.VerifyTokenRequest;
import gatehouse.token.v1.TokenServiceOuterClass.VerifyTokenResponse;
import gatehouse.token.v1.TokenServiceOuterClass.WatchRevocationsRequest;
import gatehouse.token.v1.TokenServiceOuterClass.WatchRevocationsResponse;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.protobuf.ProtoUtils;

/** The two methods that a verifier calls. */
final class TokenServiceMethods {
  static final String SERVICE = "gatehouse.token.v1.TokenService";

  static final MethodDescriptor<VerifyTokenRequest, VerifyTokenResponse> VERIFY_TOKEN =
      method(
          MethodType.UNARY,
          "VerifyToken",
          VerifyTokenRequest.getDefaultInstance(),
          VerifyTokenResponse.getDefaultInstance());

  static final MethodDescriptor<WatchRevocationsRequest, WatchRevocationsResponse> WATCH_REVOCATIONS =
      method(
          MethodType.SERVER_STREAMING,
          "WatchRevocations",
          WatchRevocationsRequest.getDefaultInstance(),
          WatchRevocationsResponse.getDefaultInstance());

  private TokenServiceMethods() {}

  private static <Q extends Message, R extends Message> MethodDescriptor<Q, R> method(
      MethodType type, String name, Q request, R response) {
    return MethodDescriptor.newBuilder(ProtoUtils.marshaller(request), ProtoUtils.marshaller(response))
        .setType(type)
        .setFullMethodName(MethodDescriptor.generateFullMethodName(SERVICE, name))
        .build();
  }
}
