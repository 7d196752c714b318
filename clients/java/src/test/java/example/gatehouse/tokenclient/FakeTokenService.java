package example.gatehouse.tokenclient;

import com.google.gson.Gson;
import com.google.protobuf.Timestamp;
import gatehouse.token.v1.PrincipalOuterClass;
import gatehouse.token.v1.PrincipalOuterClass.PrincipalKind;
import gatehouse.token.v1.TokenServiceOuterClass.Revocation;
import gatehouse.token.v1.TokenServiceOuterClass.TokenRules;
import gatehouse.token.v1.TokenServiceOuterClass.VerifyTokenRequest;
import gatehouse.token.v1.TokenServiceOuterClass.VerifyTokenResponse;
import gatehouse.token.v1.TokenServiceOuterClass.WatchRevocationsRequest;
import gatehouse.token.v1.TokenServiceOuterClass.WatchRevocationsResponse;
import io.grpc.Grpc;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.ServerInterceptors;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.grpc.TlsServerCredentials;
import io.grpc.TlsServerCredentials.ClientAuth;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import javax.net.ssl.SSLSession;

/** Sends a heartbeat every 100 ms, of which the age counts from its arrival, and calls every token active, over mutual TLS. */
final class FakeTokenService implements AutoCloseable {
  static final String ISSUER = "https://auth.example";
  static final String KEY_ID = "K".repeat(43);
  static final long PATIENCE_S = 60;

  /** One for all tests: the text of a token must not change with the time. */
  private static final long EXPIRES_S = Instant.now().getEpochSecond() + 3_600;

  final List<VerifyTokenRequest> calls = new CopyOnWriteArrayList<>();
  final AtomicInteger streams = new AtomicInteger();
  final AtomicReference<String> peer = new AtomicReference<>();
  volatile Status status = Status.OK;
  volatile Status streamStatus = Status.OK;
  volatile Consumer<PrincipalOuterClass.Principal.Builder> change = principal -> {};
  volatile Consumer<VerifyTokenResponse.Builder> answer = response -> response.setActive(true).setExpiresInMs(3_600_000);
  volatile TokenRules rules;
  volatile boolean isSilent;
  volatile int keepS;
  volatile CountDownLatch gate = new CountDownLatch(0);
  private final List<Revocation> revocations = new CopyOnWriteArrayList<>();
  private final Server server;

  FakeTokenService(TlsFiles files) throws Exception {
    this(files, 0);
  }

  FakeTokenService(TlsFiles files, int port) throws Exception {
    ServerServiceDefinition service =
        ServerServiceDefinition.builder(TokenServiceMethods.SERVICE)
            .addMethod(TokenServiceMethods.VERIFY_TOKEN, ServerCalls.asyncUnaryCall(this::verify))
            .addMethod(TokenServiceMethods.WATCH_REVOCATIONS, ServerCalls.asyncServerStreamingCall(this::watch))
            .build();
    var credentials =
        TlsServerCredentials.newBuilder()
            .keyManager(files.certFile().toFile(), files.keyFile().toFile())
            .trustManager(files.caFile().toFile())
            .clientAuth(ClientAuth.REQUIRE)
            .build();
    server =
        NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", port), credentials)
            .addService(ServerInterceptors.intercept(service, new PeerReader()))
            .build()
            .start();
  }

  int port() {
    return server.getPort();
  }

  String address() {
    return "127.0.0.1:" + port();
  }

  void revoke(String sessionId) {
    revocations.add(Revocation.newBuilder().setSequence(revocations.size() + 1).setSessionId(sessionId).build());
  }

  @Override
  public void close() throws InterruptedException {
    gate.countDown();
    server.shutdownNow().awaitTermination(5, TimeUnit.SECONDS); // longer for a handshake that nobody ends
  }

  private void verify(VerifyTokenRequest request, StreamObserver<VerifyTokenResponse> observer) {
    calls.add(request);
    try {
      if (!gate.await(PATIENCE_S, TimeUnit.SECONDS)) throw new IllegalStateException("nobody opened the gate");
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
    if (!status.isOk()) {
      observer.onError(status.asRuntimeException());
      return;
    }
    VerifyTokenResponse.Builder response = VerifyTokenResponse.newBuilder().setPrincipal(principal(change));
    answer.accept(response);
    observer.onNext(response.build());
    observer.onCompleted();
  }

  private void watch(WatchRevocationsRequest request, StreamObserver<WatchRevocationsResponse> observer) {
    ServerCallStreamObserver<WatchRevocationsResponse> stream = (ServerCallStreamObserver<WatchRevocationsResponse>) observer;
    streams.incrementAndGet();
    int sent = (int) request.getAfterSequence();
    long beganNs = System.nanoTime();
    boolean isFirst = true;
    while (!stream.isCancelled() && !server.isShutdown()) {
      if (!streamStatus.isOk()) {
        observer.onError(streamStatus.asRuntimeException());
        return;
      }
      if (!isSilent) {
        List<Revocation> known = List.copyOf(revocations);
        WatchRevocationsResponse.Builder message =
            WatchRevocationsResponse.newBuilder()
                .addAllRevocations(known.subList(sent, known.size()))
                .setSequence(known.size())
                .setCaughtUp(true)
                .setKeepS(keepS)
                .setElapsedMs((int) ((System.nanoTime() - beganNs) / 1_000_000))
                .setReadAt(now());
        if (isFirst && rules != null) message.setRules(rules);
        isFirst = false;
        sent = known.size();
        stream.onNext(message.build());
      }
      sleep(100);
    }
  }

  static PrincipalOuterClass.Principal principal(Consumer<PrincipalOuterClass.Principal.Builder> change) {
    PrincipalOuterClass.Principal.Builder principal =
        PrincipalOuterClass.Principal.newBuilder()
            .setKind(PrincipalKind.PRINCIPAL_KIND_USER)
            .setUserId("user-1")
            .setSessionId("session-1")
            .setRole("USER")
            .setTokenId("token-1")
            .setKeyId("key-1")
            .setAcr("urn:gatehouse:acr:1")
            .addAmr("pwd")
            .setAuthTime(now())
            .setIssuedAt(now())
            .setExpiresAt(Timestamp.newBuilder().setSeconds(Instant.now().getEpochSecond() + 3_600));
    change.accept(principal);
    return principal.build();
  }

  static void makeClient(PrincipalOuterClass.Principal.Builder principal) {
    principal
        .setKind(PrincipalKind.PRINCIPAL_KIND_CLIENT)
        .setUserId("client-1")
        .setClientId("client-1")
        .setSessionId("credential-1")
        .addScopes("orders:read")
        .clearRole()
        .clearAuthTime()
        .clearAcr();
  }

  private static Timestamp now() {
    return Timestamp.newBuilder().setSeconds(Instant.now().getEpochSecond()).build();
  }

  static String token(int number) {
    return token(Map.of("jti", number));
  }

  static String token(Map<String, ?> claims) {
    return token(KEY_ID, claims);
  }

  static String token(String keyId, Map<String, ?> claims) {
    Map<String, Object> all =
        new LinkedHashMap<>(Map.of("iss", ISSUER, "aud", ISSUER, "exp", EXPIRES_S));
    all.putAll(claims);
    Map<String, String> header = Map.of("alg", "EdDSA", "typ", "at+jwt", "kid", keyId);
    return segment(header) + "." + segment(all) + "." + "s".repeat(86);
  }

  private static String segment(Object value) {
    byte[] text = new Gson().toJson(value).getBytes(StandardCharsets.UTF_8);
    return Base64.getUrlEncoder().withoutPadding().encodeToString(text);
  }

  static void becomes(BooleanSupplier condition) {
    long deadlineNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
    while (!condition.getAsBoolean()) {
      if (System.nanoTime() > deadlineNs) throw new AssertionError("it did not happen");
      sleep(10);
    }
  }

  private static void sleep(long ms) {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
  }

  /** Stands still, so that memory is fresh on a machine that is slow. */
  static final class StoppedClock implements Clock {
    volatile double aheadS;
    private final double wallS = Clock.SYSTEM.wallS();

    @Override
    public double monotonicS() {
      return 1_000 + aheadS;
    }

    @Override
    public double wallS() {
      return wallS + aheadS;
    }
  }

  private final class PeerReader implements ServerInterceptor {
    @Override
    public <Q, R> ServerCall.Listener<Q> interceptCall(
        ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
      SSLSession session = call.getAttributes().get(Grpc.TRANSPORT_ATTR_SSL_SESSION);
      try {
        peer.set(Base64.getEncoder().encodeToString(session.getPeerCertificates()[0].getEncoded()));
      } catch (Exception error) {
        throw new IllegalStateException(error);
      }
      return next.startCall(call, headers);
    }
  }
}
