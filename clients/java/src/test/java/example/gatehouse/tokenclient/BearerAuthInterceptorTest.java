package example.gatehouse.tokenclient;

import static example.gatehouse.tokenclient.FakeTokenService.PATIENCE_S;
import static example.gatehouse.tokenclient.FakeTokenService.becomes;
import static example.gatehouse.tokenclient.FakeTokenService.token;
import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.protobuf.Empty;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.StringValue;
import com.google.rpc.ErrorInfo;
import example.gatehouse.tokenclient.FakeTokenService.StoppedClock;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.ServerInterceptors;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** In a real server. */
final class BearerAuthInterceptorTest {
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
  private static final MethodDescriptor<Empty, StringValue> UNARY = method(MethodType.UNARY, "Unary");
  private static final MethodDescriptor<Empty, StringValue> DOWN = method(MethodType.SERVER_STREAMING, "Down");
  private static final MethodDescriptor<Empty, StringValue> UP = method(MethodType.CLIENT_STREAMING, "Up");
  private static final MethodDescriptor<Empty, StringValue> BOTH = method(MethodType.BIDI_STREAMING, "Both");
  private static final MethodDescriptor<Empty, StringValue> ADMIN = method(MethodType.UNARY, "Admin");
  private static final MethodDescriptor<Empty, StringValue> PUBLIC = method(MethodType.UNARY, "Public");
  private static final MethodDescriptor<Empty, StringValue> UNLISTED = method(MethodType.UNARY, "Unlisted");
  private static final MethodDescriptor<Empty, StringValue> BROKEN = method(MethodType.UNARY, "Broken");
  private static final String BEARER = "Bearer " + token(1);

  @TempDir static Path folder;
  private static TlsFiles serverFiles;
  private static TlsFiles ownFiles;

  private FakeTokenService service;
  private TokenVerifier verifier;
  private final ExecutorService threads = Executors.newFixedThreadPool(2);
  private Server server;
  private ManagedChannel channel;

  @BeforeAll
  static void issueCertificates() throws Exception {
    Authority authority = new Authority(folder);
    serverFiles = authority.issue("token-service");
    ownFiles = authority.issue("payments-service");
  }

  @BeforeEach
  void start() throws Exception {
    service = new FakeTokenService(serverFiles);
    verifier =
        TokenVerifier.builder(service.address(), ownFiles).callTimeout(Duration.ofSeconds(PATIENCE_S)).clock(new StoppedClock()).build();
    becomes(verifier::isReady);
    Map<String, RouteAuth> methods =
        Map.of(
            "t.S/Unary", RouteAuth.AUTHENTICATED,
            "t.S/Down", RouteAuth.AUTHENTICATED,
            "t.S/Up", RouteAuth.AUTHENTICATED,
            "t.S/Both", RouteAuth.AUTHENTICATED,
            "t.S/Broken", RouteAuth.AUTHENTICATED,
            "t.S/Admin", RouteAuth.ofRoles("ADMIN"),
            "t.S/Public", RouteAuth.PUBLIC);
    ServerServiceDefinition.Builder definition = ServerServiceDefinition.builder("t.S");
    for (var unary : List.of(UNARY, BROKEN, ADMIN, PUBLIC, UNLISTED))
      definition.addMethod(unary, ServerCalls.asyncUnaryCall((request, observer) -> answer(observer)));
    definition.addMethod(DOWN, ServerCalls.asyncServerStreamingCall((request, observer) -> answer(observer)));
    definition.addMethod(UP, ServerCalls.asyncClientStreamingCall(BearerAuthInterceptorTest::answerAtTheEnd));
    definition.addMethod(BOTH, ServerCalls.asyncBidiStreamingCall(BearerAuthInterceptorTest::answerAtTheEnd));
    server =
        NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", 0))
            .addService(ServerInterceptors.intercept(definition.build(), new Fragile(), new BearerAuthInterceptor(verifier, methods)))
            .executor(threads)
            .build()
            .start();
    channel = NettyChannelBuilder.forAddress("127.0.0.1", server.getPort()).usePlaintext().build();
  }

  /** An interceptor behind the package's, with a defect. */
  private static final class Fragile implements ServerInterceptor {
    @Override
    public <Q, R> ServerCall.Listener<Q> interceptCall(
        ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
      if (call.getMethodDescriptor() == BROKEN) throw new IllegalStateException("a defect");
      return next.startCall(call, headers);
    }
  }

  @AfterEach
  void stop() throws Exception {
    service.gate.countDown();
    channel.shutdownNow();
    server.shutdownNow().awaitTermination(PATIENCE_S, TimeUnit.SECONDS);
    threads.shutdownNow();
    verifier.close();
    service.close();
  }

  private static MethodDescriptor<Empty, StringValue> method(MethodType type, String name) {
    return MethodDescriptor.newBuilder(
            ProtoUtils.marshaller(Empty.getDefaultInstance()), ProtoUtils.marshaller(StringValue.getDefaultInstance()))
        .setType(type)
        .setFullMethodName("t.S/" + name)
        .build();
  }

  private static void answer(StreamObserver<StringValue> observer) {
    observer.onNext(StringValue.of(caller()));
    observer.onCompleted();
  }

  private static String caller() {
    try {
      return BearerAuthInterceptor.currentPrincipal().userId();
    } catch (IllegalStateException error) {
      return "nobody";
    }
  }

  private static StreamObserver<Empty> answerAtTheEnd(StreamObserver<StringValue> observer) {
    return new StreamObserver<>() {
      @Override
      public void onNext(Empty message) {}

      @Override
      public void onError(Throwable error) {}

      @Override
      public void onCompleted() {
        answer(observer);
      }
    };
  }

  /** The answer of a call, or its status and the reason of its ErrorInfo. */
  private CompletableFuture<String> begin(
      MethodDescriptor<Empty, StringValue> method, int messages, String... authorization) {
    Metadata headers = new Metadata();
    for (String value : authorization) headers.put(AUTHORIZATION, value);
    ClientCall<Empty, StringValue> call =
        io.grpc.ClientInterceptors.intercept(channel, MetadataUtils.newAttachHeadersInterceptor(headers))
            .newCall(method, CallOptions.DEFAULT.withDeadlineAfter(PATIENCE_S, TimeUnit.SECONDS));
    CompletableFuture<String> said = new CompletableFuture<>();
    StreamObserver<StringValue> observer =
        new StreamObserver<>() {
          @Override
          public void onNext(StringValue message) {
            said.complete(message.getValue());
          }

          @Override
          public void onError(Throwable error) {
            said.complete(describe((StatusRuntimeException) error));
          }

          @Override
          public void onCompleted() {}
        };
    switch (method.getType()) {
      case UNARY -> ClientCalls.asyncUnaryCall(call, Empty.getDefaultInstance(), observer);
      case SERVER_STREAMING -> ClientCalls.asyncServerStreamingCall(call, Empty.getDefaultInstance(), observer);
      default -> {
        StreamObserver<Empty> up = ClientCalls.asyncBidiStreamingCall(call, observer);
        for (int count = 0; count < messages; count++) up.onNext(Empty.getDefaultInstance());
        up.onCompleted();
      }
    }
    return said;
  }

  private static String describe(StatusRuntimeException error) {
    try {
      var details = StatusProto.fromThrowable(error).getDetailsList();
      String reason = details.isEmpty() ? "-" : details.get(0).unpack(ErrorInfo.class).getReason();
      return error.getStatus().getCode() + " " + reason;
    } catch (InvalidProtocolBufferException broken) {
      throw new AssertionError(broken);
    }
  }

  private String call(MethodDescriptor<Empty, StringValue> method, String... authorization) throws Exception {
    return begin(method, 1, authorization).get(PATIENCE_S, TimeUnit.SECONDS);
  }

  @Test
  void eachKindOfMethodAsksForAToken() throws Exception {
    for (var method : List.of(UNARY, DOWN, UP, BOTH)) {
      assertEquals("user-1", call(method, BEARER));
      assertEquals("UNAUTHENTICATED token_missing", call(method));
    }
  }

  @Test
  void aStreamMayEndBeforeItsTokenIsVerified() throws Exception {
    service.gate = new CountDownLatch(1);
    List<CompletableFuture<String>> calls = new ArrayList<>();
    for (var method : List.of(UP, BOTH)) {
      calls.add(begin(method, 0, BEARER));
      calls.add(begin(method, 3, BEARER));
    }
    becomes(() -> service.calls.size() == 1);
    service.gate.countDown();
    for (CompletableFuture<String> call : calls) assertEquals("user-1", call.get(PATIENCE_S, TimeUnit.SECONDS));
  }

  @Test
  void manyCallsWaitWithoutAThreadEach() throws Exception {
    service.gate = new CountDownLatch(1);
    List<CompletableFuture<String>> calls =
        IntStream.range(0, 100).mapToObj(number -> begin(UNARY, 1, BEARER)).toList();
    becomes(() -> service.calls.size() == 1);
    assertEquals("UNAUTHENTICATED token_missing", call(UNARY)); // by one of two threads
    service.gate.countDown();
    for (CompletableFuture<String> call : calls) assertEquals("user-1", call.get(PATIENCE_S, TimeUnit.SECONDS));
    assertEquals(1, service.calls.size());
  }

  @Test
  void aPublicMethodHasNoPrincipal() throws Exception {
    assertEquals("nobody", call(PUBLIC, BEARER));
    assertEquals("nobody", call(PUBLIC));
  }

  @Test
  void whatIsNotAllowedOrNotListedIsRefused() throws Exception {
    assertEquals("PERMISSION_DENIED forbidden", call(ADMIN, BEARER));
    assertEquals("PERMISSION_DENIED forbidden", call(UNLISTED, BEARER));
    assertEquals("UNAUTHENTICATED token_missing", call(UNLISTED));
  }

  @Test
  void aCallThatCannotBeginHasAnEnd() throws Exception {
    for (int time = 0; time < 2; time++) assertEquals("UNKNOWN -", call(BROKEN, BEARER)); // by a call, and from memory
    assertEquals("UNAUTHENTICATED token_missing", call(BROKEN));
  }

  @Test
  void severalTokensAreRefused() throws Exception {
    assertEquals("UNAUTHENTICATED token_invalid", call(UNARY, BEARER, BEARER));
  }

  @Test
  void withoutAnAnswerItIsUnavailable() throws Exception {
    service.status = Status.UNAUTHENTICATED;
    for (var method : List.of(UNARY, DOWN, UP, BOTH))
      assertEquals("UNAVAILABLE service_unavailable", call(method, BEARER));
  }
}
