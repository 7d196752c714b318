package example.gatehouse.tokenclient;

import example.gatehouse.tokenclient.AuthException.Reason;
import java.time.Instant;
import java.util.Set;

/** Who may call a method: users by their role, clients by their scopes. */
public final class RouteAuth {
  /** Everybody, also without a token. */
  public static final RouteAuth PUBLIC = new RouteAuth(null, Set.of(), null);

  /** Every user, and no client. */
  public static final RouteAuth AUTHENTICATED = new RouteAuth(null, Set.of(), null);

  private final Set<String> roles;
  private final Set<String> scopes;
  private final AssuranceDemand assurance;

  private RouteAuth(Set<String> roles, Set<String> scopes, AssuranceDemand assurance) {
    this.roles = roles;
    this.scopes = scopes;
    this.assurance = assurance;
  }

  /** Users of these roles, and no client. Without any: no user. */
  public static RouteAuth ofRoles(String... roles) {
    return new RouteAuth(Set.of(roles), Set.of(), null);
  }

  /** Also clients that were granted all of these. */
  public RouteAuth andClientsWith(String... scopes) {
    return new RouteAuth(roles, Set.of(scopes), assurance);
  }

  /** Of users with a session of this level only. */
  public RouteAuth demanding(AssuranceDemand assurance) {
    return new RouteAuth(roles, scopes, assurance);
  }

  /**
   * For one that demands no greatest age of a proof.
   *
   * @throws AuthException forbidden, user_required or step_up_required
   * @throws IllegalStateException if it does: an age counts by the time of token-service
   */
  public void check(Principal principal) throws AuthException {
    if (assurance != null && assurance.maxAge() != null)
      throw new IllegalStateException("the age of a proof counts by the time of token-service: give verifier.now()");
    check(principal, Instant.MAX);
  }

  /**
   * @param now {@link TokenVerifier#now}: the clock of this machine may be wrong
   * @throws AuthException forbidden, user_required or step_up_required
   */
  public void check(Principal principal, Instant now) throws AuthException {
    if (!isAllowed(principal)) throw new AuthException(Reason.FORBIDDEN);
    if (assurance == null) return;
    if (principal.isClient()) throw new AuthException(Reason.USER_REQUIRED);
    if (!assurance.isMetBy(principal, now)) throw AuthException.stepUp(assurance, principal.acr());
  }

  private boolean isAllowed(Principal principal) {
    if (principal.isClient()) return !scopes.isEmpty() && principal.scopes().containsAll(scopes);
    return roles == null || roles.contains(principal.role());
  }
}
