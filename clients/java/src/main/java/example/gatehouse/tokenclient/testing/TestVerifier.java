package example.gatehouse.tokenclient.testing;

import example.gatehouse.tokenclient.AuthException;
import example.gatehouse.tokenclient.AuthException.Reason;
import example.gatehouse.tokenclient.Principal;
import example.gatehouse.tokenclient.TokenVerifier;
import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;

/**
 * For the tests of a service, in place of the verifier of {@link TokenVerifier#builder}. The filter and the interceptor apply their own
 * rules to what it answers. It accepts only the tokens that it has issued itself, whose text is random. So a service that runs with it by
 * mistake refuses every call. Safe for several threads.
 */
// In the jar itself, as in the packages of the other languages: a jar for tests would be a second artifact for one class.
public final class TestVerifier implements TokenVerifier {
  private static final Duration CLOCK_SKEW = Duration.ofSeconds(5); // that a verifier allows

  private final InstantSource clock;
  private final Map<String, Principal> issued = new ConcurrentHashMap<>();
  private final Set<String> revokedIds = ConcurrentHashMap.newKeySet(); // sessions, and tokens of clients
  private final Set<String> expiredIds = ConcurrentHashMap.newKeySet(); // tokens
  private volatile boolean isAvailable = true;

  public TestVerifier() {
    this(InstantSource.system());
  }

  public TestVerifier(InstantSource clock) {
    this.clock = clock;
  }

  /**
   * @return an access token for {@code Authorization: Bearer}
   * @throws IllegalArgumentException if no token could have such a principal
   */
  public String issue(TestPrincipal wanted) {
    String token = "test-" + UUID.randomUUID();
    issued.put(token, wanted.toPrincipal(now()));
    return token;
  }

  /** As a logout: of a user it ends the session, with all of its tokens. Of a client it ends this token alone. */
  public void revoke(String token) {
    Principal principal = principalOf(token);
    revokedIds.add(principal.isClient() ? principal.tokenId() : principal.sessionId());
  }

  /** Of a client: its credential. */
  public void revokeSession(String sessionId) {
    revokedIds.add(sessionId);
  }

  /** Ends the sessions that the user has now, as after a change of the role. */
  public void revokeUser(String userId) {
    for (Principal principal : issued.values())
      if (!principal.isClient() && principal.userId().equals(userId)) revokeSession(principal.sessionId());
  }

  /** As if the token's time were over. */
  public void expire(String token) {
    expiredIds.add(principalOf(token).tokenId());
  }

  /** False: as without token-service, and every call is a 503. */
  public void setAvailable(boolean isAvailable) {
    this.isAvailable = isAvailable;
  }

  @Override
  public Principal verify(String token) throws AuthException {
    if (!isAvailable) throw new AuthException(Reason.SERVICE_UNAVAILABLE);
    Principal principal = issued.get(token);
    boolean isActive =
        principal != null && !revokedIds.contains(principal.sessionId()) && !revokedIds.contains(principal.tokenId());
    if (!isActive) throw new AuthException(Reason.TOKEN_INVALID);
    boolean isOver = !now().isBefore(principal.expiresAt().plus(CLOCK_SKEW));
    if (isOver || expiredIds.contains(principal.tokenId())) throw new AuthException(Reason.TOKEN_EXPIRED);
    return principal;
  }

  @Override
  public CompletableFuture<Principal> verifyAsync(String token) {
    try {
      return CompletableFuture.completedFuture(verify(token));
    } catch (AuthException refusal) {
      return CompletableFuture.failedFuture(refusal);
    }
  }

  @Override
  public Instant now() {
    return clock.instant();
  }

  @Override
  public boolean isReady() {
    return isAvailable;
  }

  @Override
  public void close() {
    isAvailable = false;
  }

  private Principal principalOf(String token) {
    Principal principal = issued.get(token);
    if (principal == null) throw new IllegalArgumentException("this TestVerifier has not issued the token");
    return principal;
  }
}
