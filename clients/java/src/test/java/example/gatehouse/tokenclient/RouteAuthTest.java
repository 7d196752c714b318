package example.gatehouse.tokenclient;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.gson.JsonParser;
import example.gatehouse.tokenclient.AuthException.Reason;
import gatehouse.token.v1.PrincipalOuterClass;
import gatehouse.token.v1.TokenServiceOuterClass.VerifyTokenResponse;
import java.time.Duration;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

final class RouteAuthTest {
  private static Principal principal(Consumer<PrincipalOuterClass.Principal.Builder> change) {
    VerifyTokenResponse.Builder response = VerifyTokenResponse.newBuilder().setActive(true);
    return Answers.principal(response.setPrincipal(FakeTokenService.principal(change)).build(), null).orElseThrow();
  }

  private static final Principal USER = principal(same -> {});
  private static final Principal ADMIN = principal(user -> user.setRole("ADMIN"));
  private static final Principal CLIENT = principal(FakeTokenService::makeClient);

  private static String verdict(RouteAuth access, Principal principal) {
    try {
      access.check(principal);
      return "allowed";
    } catch (AuthException refusal) {
      return refusal.code();
    }
  }

  private static void check(RouteAuth access, String user, String admin, String client) {
    List<String> verdicts = List.of(verdict(access, USER), verdict(access, ADMIN), verdict(access, CLIENT));
    assertEquals(List.of(user, admin, client), verdicts);
  }

  @Test
  void usersAreAllowedByRoleAndClientsByScopes() {
    check(RouteAuth.AUTHENTICATED, "allowed", "allowed", "forbidden");
    check(RouteAuth.ofRoles("ADMIN"), "forbidden", "allowed", "forbidden");
    check(RouteAuth.ofRoles().andClientsWith("orders:read"), "forbidden", "forbidden", "allowed");
    check(RouteAuth.AUTHENTICATED.andClientsWith("orders:read", "orders:write"), "allowed", "allowed", "forbidden");
    check(RouteAuth.AUTHENTICATED.andClientsWith(), "allowed", "allowed", "forbidden");
    check(
        RouteAuth.ofRoles("ADMIN").andClientsWith("orders:read").demanding(new AssuranceDemand(1, null)),
        "forbidden",
        "allowed",
        "user_required");
  }

  @Test
  void aDemandIsMetByItsLevelAndWithinItsAge() {
    Principal strong = principal(user -> user.setAcr("urn:gatehouse:acr:2"));
    Duration age = Duration.ofMinutes(5);
    assertEquals(true, new AssuranceDemand(2, age).isMetBy(strong, strong.authTime().plus(age)));
    assertEquals(false, new AssuranceDemand(2, age).isMetBy(strong, strong.authTime().plus(age).plusMillis(1)));
    assertEquals(true, new AssuranceDemand(2, age).isMetBy(strong, strong.authTime().minusSeconds(5)));
    assertEquals(false, new AssuranceDemand(2, age).isMetBy(strong, strong.authTime().minusSeconds(5).minusMillis(1)));
    assertEquals(true, new AssuranceDemand(2, null).isMetBy(strong, strong.authTime().plusSeconds(86_400)));
    assertEquals(false, new AssuranceDemand(3, null).isMetBy(strong, strong.authTime()));
    assertEquals(false, new AssuranceDemand(1, null).isMetBy(CLIENT, CLIENT.authTime()));
  }

  @Test
  void aRoleThatIsMissingHasTheChallengeOfRfc6750ButAUserThatIsMissingHasNone() {
    AuthException refusal = assertThrows(AuthException.class, () -> RouteAuth.ofRoles("ADMIN").check(USER));
    assertEquals("Bearer error=\"insufficient_scope\"", refusal.httpHeaders().get("WWW-Authenticate"));
    assertEquals(null, new AuthException(AuthException.Reason.USER_REQUIRED).httpHeaders().get("WWW-Authenticate"));
  }

  @Test
  void aStepUpHasTheChallengeOfRfc9470AndItsMethods() {
    RouteAuth access = RouteAuth.AUTHENTICATED.demanding(new AssuranceDemand(2, Duration.ofMinutes(5)));
    AuthException refusal = assertThrows(AuthException.class, () -> access.check(USER, USER.authTime()));
    assertThrows(IllegalStateException.class, () -> access.check(USER)); // an age has no meaning without a time
    String error = "Bearer error=\"insufficient_user_authentication\"";
    assertEquals(error + ", acr_values=\"urn:gatehouse:acr:2\", max_age=300", refusal.httpHeaders().get("WWW-Authenticate"));
    String expected =
        "{\"code\":\"step_up_required\",\"details\":{\"acr\":2,\"maxAgeSeconds\":300,"
            + "\"methods\":[\"passkey\",\"totp\",\"recovery_code\"]}}";
    assertEquals(
        JsonParser.parseString(expected),
        JsonParser.parseString(refusal.httpBody()).getAsJsonObject().get("error"));
  }

  @Test
  void whatIsMissingOrUnknownInAnAnswerIsDenied() {
    List<Consumer<PrincipalOuterClass.Principal.Builder>> gaps =
        List.of(
            user -> user.clearUserId(),
            user -> user.clearSessionId(),
            user -> user.clearTokenId(),
            user -> user.clearKeyId(),
            user -> user.clearRole(),
            user -> user.setRole("not a role"),
            user -> user.clearKind(),
            user -> user.setKindValue(9),
            user -> user.clearAuthTime(),
            user -> user.clearIssuedAt(),
            user -> user.clearExpiresAt(),
            user -> user.clearAcr(),
            user -> user.setAcr("urn:gatehouse:acr:4"),
            user -> user.getConfirmationBuilder().setJkt("x"),
            user -> {
              FakeTokenService.makeClient(user);
              user.setClientId("another");
            },
            user -> {
              FakeTokenService.makeClient(user);
              user.clearScopes();
            });
    for (var gap : gaps) {
      VerifyTokenResponse.Builder response = VerifyTokenResponse.newBuilder().setActive(true);
      response.setPrincipal(FakeTokenService.principal(gap));
      assertEquals(Optional.empty(), Answers.principal(response.build(), null), "gap " + gaps.indexOf(gap));
    }
  }

  private static String token(String... authorization) {
    try {
      return BearerToken.of(List.of(authorization));
    } catch (AuthException refusal) {
      return refusal.code() + " " + refusal.httpHeaders().getOrDefault("WWW-Authenticate", "");
    }
  }

  @Test
  void theTokenOfAHeaderIsReadStrictly() {
    String missing = "token_missing Bearer";
    String invalid = "token_invalid Bearer error=\"invalid_token\"";
    assertEquals("a.b.c", token("bEaReR a.b.c"));
    for (String value : List.of("", "Basic YTpi", "Bearers x", "DPoP a.b.c")) assertEquals(missing, token(value), value);
    for (String value : List.of("Bearer", "Bearer ", "Bearer  a.b.c", "Bearer a b", "Bearer a,", "Bearer a\n"))
      assertEquals(invalid, token(value), value);
    assertEquals(invalid, token("Bearer " + "a".repeat(4_097)));
    assertEquals(invalid, token("Bearer a", "Bearer a"));
    assertEquals(invalid, token("Basic YTpi", "Bearer a"));
    assertEquals(missing, token());
  }

  @Test
  void onlyWhatIsUnavailableSaysWhenToComeBack() {
    for (Reason reason : EnumSet.complementOf(EnumSet.of(Reason.STEP_UP_REQUIRED))) {
      AuthException refusal = new AuthException(reason);
      Map<String, String> headers = refusal.httpHeaders();
      assertEquals(reason == Reason.SERVICE_UNAVAILABLE ? "1" : null, headers.get("Retry-After"));
      assertEquals(List.of("application/json", "no-store"), List.of(headers.get("Content-Type"), headers.get("Cache-Control")));
      assertEquals(reason == Reason.SERVICE_UNAVAILABLE, refusal.httpStatus() == 503);
    }
  }
}
