package example.gatehouse.tokenclient.testing;

import example.gatehouse.tokenclient.Principal;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.regex.Pattern;

/** Whom a token of a {@link TestVerifier} speaks for. What is not set has a value of its own for each token. */
public final class TestPrincipal {
  private static final Pattern ROLE_NAME = Pattern.compile("[A-Z][A-Z0-9_]{0,31}");
  private static final Duration LIFE = Duration.ofMinutes(15);

  /** As after a login with a password, with a second factor, and with a passkey. */
  private static final Map<Integer, List<String>> AMR =
      Map.of(1, List.of("pwd"), 2, List.of("pwd", "otp", "mfa"), 3, List.of("hwk", "user", "mfa"));

  private final Principal.Kind kind;
  private final String id;
  private final String role;
  private final Set<String> scopes;
  private int acr = 1;
  private List<String> amr;
  private Instant authTime;
  private String sessionId;
  private Instant expiresAt;

  private TestPrincipal(Principal.Kind kind, String id, String role, Set<String> scopes) {
    if (id.isEmpty()) throw new IllegalArgumentException("the id of a user or a client is empty");
    this.kind = kind;
    this.id = id;
    this.role = role;
    this.scopes = scopes;
  }

  /** @throws IllegalArgumentException if the role is not named as USER or MERCHANT_CLERK */
  public static TestPrincipal user(String userId, String role) {
    if (!ROLE_NAME.matcher(role).matches())
      throw new IllegalArgumentException("a user needs a role, named as USER or MERCHANT_CLERK, not " + role);
    return new TestPrincipal(Principal.Kind.USER, userId, role, Set.of());
  }

  /** @throws IllegalArgumentException without a scope */
  public static TestPrincipal client(String clientId, String... scopes) {
    if (scopes.length == 0) throw new IllegalArgumentException("a client needs at least one scope");
    return new TestPrincipal(Principal.Kind.CLIENT, clientId, "", Set.of(scopes));
  }

  /** By default 1. */
  public TestPrincipal acr(int acr) {
    assertUser("acr");
    if (!AMR.containsKey(acr)) throw new IllegalArgumentException("acr is 1, 2 or 3, not " + acr);
    this.acr = acr;
    return this;
  }

  /** By default those of the level. */
  public TestPrincipal amr(String... amr) {
    assertUser("amr");
    this.amr = List.of(amr);
    return this;
  }

  /** By default the moment of issue. */
  public TestPrincipal authTime(Instant authTime) {
    assertUser("authTime");
    this.authTime = authTime;
    return this;
  }

  public TestPrincipal sessionId(String sessionId) {
    if (sessionId.isEmpty()) throw new IllegalArgumentException("sessionId is empty");
    this.sessionId = sessionId;
    return this;
  }

  /** By default 15 minutes after the issue. */
  public TestPrincipal expiresAt(Instant expiresAt) {
    this.expiresAt = expiresAt;
    return this;
  }

  private void assertUser(String member) {
    if (kind == Principal.Kind.CLIENT) throw new IllegalArgumentException("a client has no " + member);
  }

  Principal toPrincipal(Instant now) {
    boolean isClient = kind == Principal.Kind.CLIENT;
    return new Principal(
        kind,
        isClient ? "" : id,
        sessionId == null ? UUID.randomUUID().toString() : sessionId,
        role,
        isClient ? id : "",
        scopes,
        UUID.randomUUID().toString(),
        "",
        "test",
        "",
        isClient ? List.of() : amr == null ? AMR.get(acr) : amr,
        acr,
        authTime == null ? now : authTime,
        now,
        expiresAt == null ? now.plus(LIFE) : expiresAt);
  }
}
