package example.gatehouse.tokenclient;

import static example.gatehouse.tokenclient.FakeTokenService.PATIENCE_S;
import static example.gatehouse.tokenclient.FakeTokenService.becomes;
import static example.gatehouse.tokenclient.FakeTokenService.token;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import example.gatehouse.tokenclient.AuthException.Reason;
import example.gatehouse.tokenclient.FakeTokenService.StoppedClock;
import gatehouse.token.v1.TokenServiceOuterClass.TokenRules;
import gatehouse.token.v1.TokenServiceOuterClass.VerificationKey;
import io.grpc.Context;
import io.grpc.Status;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What the conformance test cannot see: threads, bounds, TLS. */
final class TokenVerifierTest {
  @TempDir static Path folder;
  private static Authority authority;
  private static TlsFiles serverFiles;
  private static TlsFiles ownFiles;

  private final StoppedClock clock = new StoppedClock();
  private FakeTokenService service;
  private TokenVerifier verifier;

  @BeforeAll
  static void issueCertificates() throws Exception {
    authority = new Authority(folder);
    serverFiles = authority.issue("token-service");
    ownFiles = authority.issue("payments-service");
  }

  @BeforeEach
  void start() throws Exception {
    service = new FakeTokenService(serverFiles);
  }

  @AfterEach
  void stop() throws Exception {
    if (verifier != null) verifier.close();
    service.close();
  }

  private TokenVerifier.Builder options() {
    return TokenVerifier.builder(service.address(), ownFiles)
        .callTimeout(Duration.ofSeconds(PATIENCE_S))
        .clock(clock);
  }

  private void open(TokenVerifier.Builder options) throws Exception {
    verifier = options.build();
    becomes(verifier::isReady);
  }

  private String verdict(String token) {
    try {
      return verifier.verify(token).userId();
    } catch (AuthException refusal) {
      return refusal.code();
    }
  }

  @Test
  void threadsShareOneCall() throws Exception {
    open(options());
    service.gate = new CountDownLatch(1);
    List<CompletableFuture<Principal>> verdicts =
        IntStream.range(0, 20).mapToObj(number -> verifier.verifyAsync(token(1))).toList();
    becomes(() -> service.calls.size() == 1);
    verdicts.get(0).cancel(true);
    assertThrows(CancellationException.class, () -> verdicts.get(0).join());
    service.gate.countDown();
    for (CompletableFuture<Principal> verdict : verdicts.subList(1, 20))
      assertEquals("user-1", verdict.get(PATIENCE_S, TimeUnit.SECONDS).userId());
    assertEquals(1, service.calls.size());
  }

  @Test
  void aCallThatIsServedMayEndBeforeTheAnswer() throws Exception {
    open(options());
    service.gate = new CountDownLatch(1);
    Context.CancellableContext serving = Context.ROOT.withCancellation();
    CompletableFuture<Principal> verdict = serving.call(() -> verifier.verifyAsync(token(1)));
    becomes(() -> service.calls.size() == 1);
    serving.cancel(null);
    service.gate.countDown();
    assertEquals("user-1", verdict.get(PATIENCE_S, TimeUnit.SECONDS).userId());
  }

  @Test
  void theMemoryIsBoundedAndKeepsWhatIsUsed() throws Exception {
    open(options().maxCachedTokens(2));
    for (int number : List.of(1, 2, 1, 3, 1)) verdict(token(number));
    assertEquals(3, service.calls.size());
    verdict(token(2));
    assertEquals(4, service.calls.size());
  }

  @Test
  void beyondTheBoundOfOpenCallsTheAnswerIs503() throws Exception {
    open(options().maxCallsInFlight(1));
    service.gate = new CountDownLatch(1);
    CompletableFuture<Principal> verdict = verifier.verifyAsync(token(1));
    assertEquals("service_unavailable", verdict(token(2)));
    service.gate.countDown();
    assertEquals("user-1", verdict.get(PATIENCE_S, TimeUnit.SECONDS).userId());
    assertEquals("user-1", verdict(token(2)));
  }

  @Test
  void aRefusalIsKeptForTenSeconds() throws Exception {
    open(options());
    service.answer = response -> response.setActive(false);
    assertEquals("token_invalid", verdict(token(1)));
    assertEquals("token_invalid", verdict(token(1)));
    assertEquals(1, service.calls.size());
    service.answer = response -> response.setActive(true);
    clock.aheadS = 10;
    assertEquals("user-1", verdict(token(1)));
  }

  @Test
  void noTokenStaysInMemoryForLongerThanItsRevocationWould() throws Exception {
    service.keepS = 40;
    open(options());
    for (double aheadS : new double[] {0, 39, 41}) {
      clock.aheadS = aheadS;
      becomes(verifier::isReady);
      assertEquals("user-1", verdict(token(1)));
      assertEquals(aheadS < 40 ? 1 : 2, service.calls.size());
    }
  }

  @Test
  void revocationsBeyondTheBoundEndTheTrustInMemory() throws Exception {
    open(options().maxRevocations(1));
    verdict(token(1));
    verdict(token(1));
    assertEquals(1, service.calls.size());
    service.revoke("another-1");
    service.revoke("another-2");
    becomes(
        () -> {
          int before = service.calls.size();
          verdict(token(1));
          return service.calls.size() > before;
        });
  }

  @Test
  void aRevokedApiKeyMayLiveOnAsAnotherCredential() throws Exception {
    open(options());
    String key = "gh_" + "0a".repeat(16) + "_" + "A".repeat(43);
    service.change = FakeTokenService::makeClient;
    Principal client = verifier.verify(key);
    assertEquals(List.of("credential-1", "", ""), List.of(client.sessionId(), client.userId(), client.role()));
    service.change =
        principal -> {
          FakeTokenService.makeClient(principal);
          principal.setSessionId("credential-2");
        };
    service.revoke("credential-1");
    becomes(
        () -> {
          try {
            return verifier.verify(key).sessionId().equals("credential-2");
          } catch (AuthException error) {
            throw new AssertionError(error);
          }
        });
  }

  private void sendRules(VerificationKey... keys) {
    service.rules = TokenRules.newBuilder().setIssuer(FakeTokenService.ISSUER).addAllKeys(List.of(keys)).build();
  }

  private static VerificationKey key() {
    return VerificationKey.newBuilder().setKeyId(FakeTokenService.KEY_ID).setAlgorithm("EdDSA").build();
  }

  @Test
  void screeningNeedsNoCall() throws Exception {
    sendRules(key());
    open(options());
    String whole = token(1);
    String payload = whole.split("\\.")[1];
    Map<String, String> rows = new LinkedHashMap<>();
    rows.put(token(Map.of("iss", "https://other.example")), "token_invalid");
    rows.put(token(Map.of("aud", "payments")), "token_invalid");
    rows.put(token(Map.of("exp", "tomorrow")), "token_invalid");
    rows.put(token(Map.of("exp", 1)), "token_expired");
    rows.put(whole.substring(0, whole.length() - 1), "token_invalid");
    rows.put(whole.replace(payload, "W1tb".repeat(700)), "token_invalid"); // deep nesting
    rows.put(token("L".repeat(43), Map.of()), "token_invalid"); // after one more heartbeat
    rows.forEach((text, code) -> assertEquals(code, verdict(text), text));
    assertEquals(List.of(), service.calls);
    assertEquals("user-1", verdict(whole));
  }

  @Test
  void aTokenOfAnUnknownKeyIs503InSilence() throws Exception {
    sendRules();
    open(options());
    service.isSilent = true;
    becomes(() -> verdict(token(1)).equals("service_unavailable")); // after what was on its way
    assertEquals(List.of(), service.calls);
  }

  @Test
  void fewThreadsWaitForKeysAndTheOthersGoOn() throws Exception {
    sendRules(key());
    open(options());
    service.isSilent = true;
    AtomicBoolean isOver = new AtomicBoolean();
    ExecutorService threads = Executors.newFixedThreadPool(TokenServiceVerifier.MAX_KEY_WAITING_THREADS);
    for (int count = 0; count < TokenServiceVerifier.MAX_KEY_WAITING_THREADS; count++)
      threads.submit(
          () -> {
            while (!isOver.get()) why(token("X".repeat(43), Map.of()));
          });
    becomes(() -> why(token("Y".repeat(43), Map.of())).equals("too many threads wait for keys"));
    assertEquals("user-1", verdict(token(1)));
    // Without a thread the wait is another's.
    CompletableFuture<Principal> waiting = verifier.verifyAsync(token("Z".repeat(43), Map.of()));
    assertThrows(ExecutionException.class, () -> waiting.get(PATIENCE_S, TimeUnit.SECONDS));
    isOver.set(true);
    threads.shutdown();
    threads.awaitTermination(PATIENCE_S, TimeUnit.SECONDS);
    becomes(() -> why(token("Y".repeat(43), Map.of())).equals("token-service is silent"));
  }

  private String why(String token) {
    try {
      return verifier.verify(token).userId();
    } catch (AuthException refusal) {
      return refusal.getCause() == null ? refusal.code() : refusal.getCause().getMessage();
    }
  }

  @Test
  void whatIsNewInABreakIsAWarning() throws Exception {
    List<String> warnings = new CopyOnWriteArrayList<>();
    Logger log = Logger.getLogger(RevocationWatch.class.getName());
    Handler handler =
        new Handler() {
          @Override
          public void publish(LogRecord record) {
            if (record.getLevel() == Level.WARNING) warnings.add(record.getMessage());
          }

          @Override
          public void flush() {}

          @Override
          public void close() {}
        };
    log.addHandler(handler);
    service.streamStatus = Status.PERMISSION_DENIED;
    verifier = options().build();
    String refused = "token-service refuses this service: add its name to VERIFIERS";
    becomes(() -> service.streams.get() > 2);
    assertEquals(List.of(refused), warnings);
    service.streamStatus = Status.UNAVAILABLE;
    becomes(() -> warnings.size() == 2);
    assertEquals(List.of(refused, "the revocation stream broke: UNAVAILABLE"), warnings);
    log.removeHandler(handler);
  }

  @Test
  void aPeerOfAnotherNameIsNotBelieved() throws Exception {
    try (FakeTokenService imposter = new FakeTokenService(authority.issue("identity-service"))) {
      verifier = TokenVerifier.builder(imposter.address(), ownFiles).build();
      assertEquals("service_unavailable", verdict(token(1)));
      assertEquals(List.of(), imposter.calls);
      assertFalse(verifier.isReady());
    }
  }

  @Test
  void aPeerOfAnotherAuthorityIsNotBelieved(@TempDir Path elsewhere) throws Exception {
    try (FakeTokenService imposter = new FakeTokenService(new Authority(elsewhere).issue("token-service"))) {
      verifier = TokenVerifier.builder(imposter.address(), ownFiles).build();
      assertEquals("service_unavailable", verdict(token(1)));
      assertEquals(List.of(), imposter.calls);
    }
  }

  @Test
  void renewedCertificatesAreUsedAndUnusableOnesAreNot() throws Exception {
    TlsFiles own = authority.issue("payments-service", "own");
    TlsFiles renewed = authority.issue("payments-service", "renewed");
    int port = service.port();
    verifier =
        TokenVerifier.builder(service.address(), own)
            .callTimeout(Duration.ofSeconds(PATIENCE_S))
            .refresh(Duration.ofMillis(20))
            .build();
    becomes(verifier::isReady);
    String first = service.peer.get();
    Files.copy(renewed.certFile(), own.certFile(), StandardCopyOption.REPLACE_EXISTING); // for a moment they do not match
    restart(port);
    assertEquals(first, service.peer.get());
    Files.copy(renewed.keyFile(), own.keyFile(), StandardCopyOption.REPLACE_EXISTING);
    becomes(
        () -> {
          try {
            restart(port);
          } catch (Exception error) {
            throw new AssertionError(error);
          }
          return !service.peer.get().equals(first);
        });
    assertNotEquals(first, service.peer.get());
  }

  /** Until the verifier has connected again. */
  private void restart(int port) throws Exception {
    service.close();
    service = new FakeTokenService(serverFiles, port);
    becomes(() -> service.peer.get() != null);
  }

  @Test
  void aProcessDoesNotStartWithoutItsIdentity() {
    TlsFiles none = new TlsFiles(folder.resolve("a"), folder.resolve("b"), folder.resolve("c"));
    assertThrows(NoSuchFileException.class, () -> TokenVerifier.builder("127.0.0.1:1", none).build());
  }

  @Test
  void anErrorOfTheCallIsNeverA401() throws Exception {
    open(options());
    for (Status.Code code : List.of(Status.Code.UNAUTHENTICATED, Status.Code.PERMISSION_DENIED, Status.Code.INTERNAL)) {
      service.status = code.toStatus();
      AuthException refusal = assertThrows(AuthException.class, () -> verifier.verify(token(1)));
      assertEquals(Reason.SERVICE_UNAVAILABLE, refusal.reason());
    }
  }

  @Test
  void afterCloseNothingIsAnswered() throws Exception {
    open(options());
    verifier.close();
    assertEquals("service_unavailable", verdict(token(1)));
  }

  @Test
  void anAudienceHasAForm() {
    for (String audience : List.of("", "two words", "quo\"te", "x".repeat(201)))
      assertThrows(IllegalArgumentException.class, () -> options().audience(audience));
  }
}
