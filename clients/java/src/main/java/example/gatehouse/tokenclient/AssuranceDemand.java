package example.gatehouse.tokenclient;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.stream.Stream;

/**
 * A level of assurance that the caller's session must have.
 *
 * @param acr 1, 2 or 3
 * @param maxAge of the last proof of the session's level; null: any
 */
public record AssuranceDemand(int acr, Duration maxAge) {
  static final String ACR_PREFIX = "urn:gatehouse:acr:";

  /** Of the clocks of services. A proof further ahead is not fresh. */
  static final Duration CLOCK_SKEW = Duration.ofSeconds(5);

  private record Method(String name, int reaches) {}

  public AssuranceDemand {
    if (acr < 1 || acr > 3) throw new IllegalArgumentException("acr is 1, 2 or 3");
  }

  /**
   * A client has no session to step up, and meets none.
   *
   * @param now {@link TokenVerifier#now}: the clock of this machine may be wrong
   */
  public boolean isMetBy(Principal principal, Instant now) {
    if (principal.isClient() || principal.acr() < acr) return false;
    if (maxAge == null) return true;
    Duration age = Duration.between(principal.authTime(), now);
    return age.compareTo(CLOCK_SKEW.negated()) >= 0 && age.compareTo(maxAge) <= 0;
  }

  String challenge() {
    String age = maxAge == null ? "" : ", max_age=" + maxAge.toSeconds();
    return "Bearer error=\"insufficient_user_authentication\", acr_values=\"" + ACR_PREFIX + acr + "\"" + age;
  }

  /** A lower proof does not make a higher level fresh. */
  List<String> methods(int currentAcr) {
    int target = Math.max(acr, currentAcr);
    return Stream.of(
            new Method("passkey", 3), new Method("totp", 2), new Method("recovery_code", 2), new Method("password", 1))
        .filter(method -> method.reaches >= target)
        .map(Method::name)
        .toList();
  }
}
