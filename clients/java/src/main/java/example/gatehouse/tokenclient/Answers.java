package example.gatehouse.tokenclient;

import static gatehouse.token.v1.PrincipalOuterClass.PrincipalKind.PRINCIPAL_KIND_CLIENT;
import static gatehouse.token.v1.PrincipalOuterClass.PrincipalKind.PRINCIPAL_KIND_USER;

import com.google.protobuf.Timestamp;
import gatehouse.token.v1.PrincipalOuterClass;
import gatehouse.token.v1.PrincipalOuterClass.PrincipalKind;
import gatehouse.token.v1.TokenServiceOuterClass.VerifyTokenResponse;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;

/** Reads token-service's answers. Missing or unknown values deny. */
final class Answers {
  private static final Pattern ROLE_NAME = Pattern.compile("[A-Z][A-Z0-9_]{0,31}");

  private Answers() {}

  /**
   * @param audience null: the issuer
   * @return empty: invalid
   */
  static Optional<Principal> principal(VerifyTokenResponse response, String audience) {
    PrincipalOuterClass.Principal message = response.getPrincipal();
    // token-service has checked it. An answer that names another audience is not the answer to this question.
    if (audience != null && !message.getAudience().equals(audience)) return Optional.empty();
    // The proof of a bound token is not checked here.
    if (message.hasConfirmation() || !message.hasIssuedAt() || !message.hasExpiresAt()) return Optional.empty();
    boolean hasIds =
        !message.getUserId().isEmpty() && !message.getSessionId().isEmpty() && !message.getTokenId().isEmpty();
    if (!hasIds) return Optional.empty();
    PrincipalKind kind = message.getKind();
    if (kind == PRINCIPAL_KIND_CLIENT) return client(message);
    return kind == PRINCIPAL_KIND_USER ? user(message) : Optional.empty();
  }

  private static Optional<Principal> user(PrincipalOuterClass.Principal message) {
    String role = message.getRole();
    int acr = acrOf(message);
    boolean isWhole = ROLE_NAME.matcher(role).matches() && acr > 0 && message.hasAuthTime();
    if (!isWhole || message.getKeyId().isEmpty()) return Optional.empty();
    return Optional.of(
        new Principal(
            Principal.Kind.USER,
            message.getUserId(),
            message.getSessionId(),
            role,
            "",
            Set.of(),
            message.getTokenId(),
            message.getOriginTokenId(),
            message.getKeyId(),
            message.getOriginKeyId(),
            List.copyOf(message.getAmrList()),
            acr,
            instant(message.getAuthTime()),
            instant(message.getIssuedAt()),
            instant(message.getExpiresAt())));
  }

  private static Optional<Principal> client(PrincipalOuterClass.Principal message) {
    if (!message.getClientId().equals(message.getUserId()) || message.getScopesCount() == 0) return Optional.empty();
    return Optional.of(
        new Principal(
            Principal.Kind.CLIENT,
            "",
            message.getSessionId(),
            "",
            message.getClientId(),
            Set.copyOf(message.getScopesList()),
            message.getTokenId(),
            message.getOriginTokenId(),
            message.getKeyId(),
            message.getOriginKeyId(),
            List.of(),
            1,
            instant(message.getIssuedAt()),
            instant(message.getIssuedAt()),
            instant(message.getExpiresAt())));
  }

  /** 0: unknown. */
  private static int acrOf(PrincipalOuterClass.Principal message) {
    for (int level = 1; level <= 3; level++) {
      if (message.getAcr().equals(AssuranceDemand.ACR_PREFIX + level)) return level;
    }
    return 0;
  }

  private static Instant instant(Timestamp time) {
    return Instant.ofEpochSecond(time.getSeconds(), time.getNanos());
  }
}
