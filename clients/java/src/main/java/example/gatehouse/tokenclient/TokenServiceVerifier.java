package example.gatehouse.tokenclient;

import example.gatehouse.tokenclient.AuthException.Reason;
import example.gatehouse.tokenclient.TokenRules.Screening;
import gatehouse.token.v1.TokenServiceOuterClass.InactiveReason;
import gatehouse.token.v1.TokenServiceOuterClass.VerifyTokenRequest;
import gatehouse.token.v1.TokenServiceOuterClass.VerifyTokenResponse;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ConnectivityState;
import io.grpc.Context;
import io.grpc.ManagedChannel;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.security.GeneralSecurityException;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/** Asks token-service, and remembers what it has answered. */
final class TokenServiceVerifier implements TokenVerifier {
  private static final int MAX_REFUSED_TOKENS = 2_000;

  /** A refusal may be temporary: clock skew, or a new key. */
  private static final double KEEP_REFUSED_S = 10;

  /** Servers have few threads, and a token of an unknown key costs nothing to make. */
  static final int MAX_KEY_WAITING_THREADS = 4;

  /** @param until by the monotonic clock; the wall clock also advances during a suspend */
  private record Known(Principal principal, double askedS, double untilS, double untilWallS) {}

  private record Refused(Reason reason, double untilS) {}

  private final String audience;
  private final boolean acceptsIssuer;
  private final Duration callTimeout;
  private final int maxCallsInFlight;
  private final Clock clock;
  private final Object lock = new Object();
  private final Map<String, Known> known;
  private final Map<String, Refused> refused = bounded(MAX_REFUSED_TOKENS);
  private final Map<String, CompletableFuture<Principal>> asking = new HashMap<>();
  private int keyWaitingThreads;
  private final Revocations revoked;
  private final ScheduledExecutorService timer;
  private final ManagedChannel channel;
  private final RevocationWatch watch;

  TokenServiceVerifier(Builder options) throws IOException, GeneralSecurityException {
    audience = options.audience;
    acceptsIssuer = options.acceptsIssuer;
    callTimeout = options.callTimeout;
    maxCallsInFlight = options.maxCallsInFlight;
    clock = options.clock;
    known = bounded(options.maxCachedTokens);
    revoked = new Revocations(options.maxRevocations, clock);
    PeerTls tls = new PeerTls(options.tls, "token-service");
    timer =
        Executors.newSingleThreadScheduledExecutor(
            work -> {
              Thread thread = new Thread(work, "gatehouse-token-client");
              thread.setDaemon(true);
              return thread;
            });
    timer.scheduleWithFixedDelay(
        tls::refresh, options.refresh.toMillis(), options.refresh.toMillis(), TimeUnit.MILLISECONDS);
    channel =
        NettyChannelBuilder.forTarget("dns:///" + options.address)
            .sslContext(tls.context())
            .overrideAuthority("token-service")
            .defaultLoadBalancingPolicy("round_robin")
            .defaultServiceConfig(serviceConfig())
            .disableServiceConfigLookUp()
            .proxyDetector(address -> null)
            .keepAliveTime(10, TimeUnit.SECONDS)
            .keepAliveTimeout(3, TimeUnit.SECONDS)
            .build();
    watch = new RevocationWatch(lock, revoked, channel, timer, clock);
    watch.open();
  }

  @Override
  public Instant now() {
    synchronized (lock) {
      return Instant.ofEpochMilli((long) (revoked.nowS() * 1e3));
    }
  }

  @Override
  public Principal verify(String token) throws AuthException {
    CompletableFuture<Principal> verdict;
    synchronized (lock) {
      verdict = lookUp(token, true);
    }
    try {
      return verdict.join();
    } catch (CompletionException error) {
      if (error.getCause() instanceof AuthException refusal) throw refusal;
      throw error;
    }
  }

  @Override
  public CompletableFuture<Principal> verifyAsync(String token) {
    try {
      CompletableFuture<Principal> verdict;
      synchronized (lock) {
        verdict = lookUp(token, false);
      }
      // Many callers may wait for one answer: they go on in the common pool, not one after the other in gRPC's thread.
      return verdict.isDone() ? verdict : verdict.thenApplyAsync(Function.identity());
    } catch (AuthException refusal) {
      return CompletableFuture.failedFuture(refusal);
    }
  }

  @Override
  public boolean isReady() {
    synchronized (lock) {
      return revoked.isHeard();
    }
  }

  @Override
  public void close() {
    watch.close();
    channel.shutdownNow();
    timer.shutdownNow();
  }

  private CompletableFuture<Principal> lookUp(String token, boolean isBlocking) throws AuthException {
    Known entry = known.get(token);
    if (entry == null) return lookAtUnknown(token, isBlocking);
    if (revoked.end(entry.principal)) {
      known.remove(token);
      if (!TokenRules.isApiKey(token)) throw new AuthException(Reason.TOKEN_INVALID);
      return ask(token); // its credential may be live again under another id
    }
    boolean isOver = clock.monotonicS() >= entry.untilS || clock.wallS() >= entry.untilWallS;
    if (isOver || !revoked.keepsSince(entry.askedS)) {
      known.remove(token);
      return ask(token);
    }
    if (!revoked.isFresh(entry.principal) || !revoked.isComplete()) return ask(token);
    return CompletableFuture.completedFuture(entry.principal);
  }

  private CompletableFuture<Principal> lookAtUnknown(String token, boolean isBlocking) throws AuthException {
    switch (screen(token)) {
      case INVALID -> throw new AuthException(Reason.TOKEN_INVALID);
      case EXPIRED -> throw new AuthException(Reason.TOKEN_EXPIRED);
      case UNKNOWN_KEY -> {
        assertConnected();
        return isBlocking ? awaitKeyInThread(token) : awaitKey(token);
      }
      default -> {
        Refused refusal = refused.get(token);
        if (refusal != null && clock.monotonicS() < refusal.untilS) throw new AuthException(refusal.reason);
        return ask(token);
      }
    }
  }

  private Screening screen(String token) {
    if (TokenRules.isApiKey(token) && (audience == null || acceptsIssuer)) return Screening.PLAUSIBLE;
    if (!TokenRules.isTokenShape(token)) return Screening.INVALID;
    TokenRules rules = revoked.rules();
    return rules == null ? Screening.PLAUSIBLE : rules.screen(token, audienceFor(token), revoked.serverNowS());
  }

  /** Without it each call would wait for its deadline. The stream goes on to try. */
  private void assertConnected() throws AuthException {
    if (watch.isSilent() && channel.getState(false) != ConnectivityState.READY)
      throw AuthException.unavailable("token-service is silent");
  }

  private CompletableFuture<Principal> awaitKeyInThread(String token) throws AuthException {
    if (keyWaitingThreads >= MAX_KEY_WAITING_THREADS) throw AuthException.unavailable("too many threads wait for keys");
    keyWaitingThreads++;
    return awaitKey(token).whenComplete((principal, failure) -> {
      synchronized (lock) {
        keyWaitingThreads--;
      }
    });
  }

  private CompletableFuture<Principal> awaitKey(String token) throws AuthException {
    Optional<CompletableFuture<Void>> read = watch.readAgain();
    if (read.isEmpty()) throw AuthException.unavailable("too many tokens of unknown keys");
    return read.get()
        .orTimeout(RevocationWatch.KEY_WAIT_MS, TimeUnit.MILLISECONDS)
        .handle((done, timeout) -> timeout == null ? afterRead(token) : failed("token-service is silent"))
        .thenCompose(verdict -> verdict);
  }

  private CompletableFuture<Principal> afterRead(String token) {
    try {
      synchronized (lock) {
        if (screen(token) == Screening.UNKNOWN_KEY) throw new AuthException(Reason.TOKEN_INVALID);
        return ask(token);
      }
    } catch (AuthException refusal) {
      return CompletableFuture.failedFuture(refusal);
    }
  }

  /** One call in flight for each token. */
  private CompletableFuture<Principal> ask(String token) throws AuthException {
    CompletableFuture<Principal> running = asking.get(token);
    if (running != null) return running.copy();
    assertConnected();
    if (asking.size() >= maxCallsInFlight) throw AuthException.unavailable("too many tokens are being verified");
    CompletableFuture<Principal> shared = new CompletableFuture<>();
    asking.put(token, shared);
    String asked = audienceFor(token);
    VerifyTokenRequest.Builder request = VerifyTokenRequest.newBuilder().setToken(token);
    if (asked != null) request.setAudience(asked);
    CallOptions options = CallOptions.DEFAULT.withDeadlineAfter(callTimeout.toMillis(), TimeUnit.MILLISECONDS);
    Answer answer = new Answer(token, asked, clock.monotonicS(), shared);
    // Not of the call that is being served: its end would take the answer from others.
    Context.ROOT.run(
        () -> {
          ClientCall<VerifyTokenRequest, VerifyTokenResponse> call =
              channel.newCall(TokenServiceMethods.VERIFY_TOKEN, options);
          ClientCalls.asyncUnaryCall(call, request.build(), answer);
        });
    return shared.copy();
  }

  /** Null: the issuer. */
  private String audienceFor(String token) {
    if (!acceptsIssuer || audience == null) return audience;
    return TokenRules.claimedAudience(token).filter(audience::equals).orElse(null);
  }

  private final class Answer implements StreamObserver<VerifyTokenResponse> {
    private final String token;
    private final String asked;
    private final double askedS;
    private final CompletableFuture<Principal> shared;
    private VerifyTokenResponse response;

    Answer(String token, String asked, double askedS, CompletableFuture<Principal> shared) {
      this.token = token;
      this.asked = asked;
      this.askedS = askedS;
      this.shared = shared;
    }

    @Override
    public void onNext(VerifyTokenResponse message) {
      response = message;
    }

    @Override
    public void onError(Throwable error) {
      synchronized (lock) {
        asking.remove(token);
      }
      shared.completeExceptionally(new AuthException(Reason.SERVICE_UNAVAILABLE, error));
    }

    @Override
    public void onCompleted() {
      Principal principal;
      try {
        synchronized (lock) {
          asking.remove(token);
          principal = take();
        }
      } catch (AuthException refusal) {
        shared.completeExceptionally(refusal);
        return;
      } catch (RuntimeException error) {
        shared.completeExceptionally(new AuthException(Reason.SERVICE_UNAVAILABLE, error));
        return;
      }
      shared.complete(principal);
    }

    private Principal take() throws AuthException {
      Optional<Principal> active = response.getActive() ? Answers.principal(response, asked) : Optional.empty();
      if (active.isEmpty()) {
        known.remove(token);
        Reason reason = reasonOf(response);
        refused.put(token, new Refused(reason, clock.monotonicS() + KEEP_REFUSED_S));
        throw new AuthException(reason);
      }
      Principal principal = active.get();
      // A revocation during the call is newer than the answer.
      if (revoked.end(principal)) {
        known.remove(token);
        throw new AuthException(Reason.TOKEN_INVALID);
      }
      double expiresAtS = principal.expiresAt().toEpochMilli() / 1e3;
      double leftS = Integer.toUnsignedLong(response.getExpiresInMs()) / 1e3;
      double untilS = askedS + Math.min(leftS, Revocations.MAX_KEEP_S);
      known.put(token, new Known(principal, askedS, untilS, expiresAtS + AssuranceDemand.CLOCK_SKEW.toSeconds()));
      return principal;
    }
  }

  private static Reason reasonOf(VerifyTokenResponse response) {
    boolean isExpired = !response.getActive() && response.getReason() == InactiveReason.INACTIVE_REASON_EXPIRED;
    return isExpired ? Reason.TOKEN_EXPIRED : Reason.TOKEN_INVALID;
  }

  private static CompletableFuture<Principal> failed(String why) {
    return CompletableFuture.failedFuture(AuthException.unavailable(why));
  }

  /** Forgets what was not used for longest. */
  private static <V> Map<String, V> bounded(int most) {
    return new LinkedHashMap<>(16, 0.75f, true) {
      private static final long serialVersionUID = 1;

      @Override
      protected boolean removeEldestEntry(Map.Entry<String, V> eldest) {
        return size() > most;
      }
    };
  }

  private static Map<String, ?> serviceConfig() {
    Map<String, ?> retry =
        Map.of(
            "maxAttempts", 2.0,
            "initialBackoff", "0.02s",
            "maxBackoff", "0.1s",
            "backoffMultiplier", 2.0,
            "retryableStatusCodes", List.of("UNAVAILABLE"));
    Map<String, ?> name = Map.of("service", TokenServiceMethods.SERVICE, "method", "VerifyToken");
    // 100 at once: as many as may be under way at a replica that is killed.
    return Map.of(
        "retryThrottling", Map.of("maxTokens", 200.0, "tokenRatio", 0.1),
        "methodConfig", List.of(Map.of("name", List.of(name), "retryPolicy", retry)));
  }
}
