package example.gatehouse.tokenclient.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import example.gatehouse.tokenclient.AssuranceDemand;
import example.gatehouse.tokenclient.AuthException;
import example.gatehouse.tokenclient.Principal;
import example.gatehouse.tokenclient.RouteAuth;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletionException;
import org.junit.jupiter.api.Test;

final class TestVerifierTest {
  private Instant time = Instant.parse("2026-01-01T00:00:00Z");
  private final TestVerifier verifier = new TestVerifier(() -> time);

  private String verdict(String token) {
    CompletionException failure = null;
    try {
      verifier.verifyAsync(token).join();
    } catch (CompletionException refused) {
      failure = refused;
    }
    try {
      verifier.verify(token);
      assertEquals(null, failure);
      return "active";
    } catch (AuthException refusal) {
      assertEquals(refusal.code(), ((AuthException) failure.getCause()).code());
      return refusal.code();
    }
  }

  @Test
  void aPrincipalIsWhatTheTestHasSaid() throws Exception {
    Principal user = verifier.verify(verifier.issue(TestPrincipal.user("ada", "ADMIN").acr(2).sessionId("session")));
    assertEquals(List.of("ada", "ADMIN", "session", 2), List.of(user.userId(), user.role(), user.sessionId(), user.acr()));
    assertEquals(List.of("pwd", "otp", "mfa"), user.amr());
    Principal client = verifier.verify(verifier.issue(TestPrincipal.client("shop", "orders:read")));
    assertEquals(List.of("shop", "", ""), List.of(client.clientId(), client.userId(), client.role()));
    assertEquals(Set.of("orders:read"), client.scopes());
    RouteAuth fresh = RouteAuth.AUTHENTICATED.demanding(new AssuranceDemand(2, Duration.ofMinutes(5)));
    fresh.check(user, verifier.now());
    time = time.plusSeconds(301);
    assertEquals("step_up_required", assertThrows(AuthException.class, () -> fresh.check(user, verifier.now())).code());
  }

  @Test
  void whatNoTokenCouldHaveIsRefused() {
    for (String role : List.of("", "admin", "ADMIN "))
      assertThrows(IllegalArgumentException.class, () -> TestPrincipal.user("ada", role));
    assertThrows(IllegalArgumentException.class, () -> TestPrincipal.user("", "ADMIN"));
    assertThrows(IllegalArgumentException.class, () -> TestPrincipal.user("ada", "ADMIN").acr(4));
    assertThrows(IllegalArgumentException.class, () -> TestPrincipal.user("ada", "ADMIN").sessionId(""));
    assertThrows(IllegalArgumentException.class, () -> TestPrincipal.client("shop"));
    assertThrows(IllegalArgumentException.class, () -> TestPrincipal.client("shop", "orders:read").acr(2));
    assertThrows(IllegalArgumentException.class, () -> verifier.revoke("another"));
  }

  @Test
  void aLogoutEndsTheSessionAndARevocationOfAClientOneToken() {
    String one = verifier.issue(TestPrincipal.user("ada", "USER").sessionId("session"));
    String other = verifier.issue(TestPrincipal.user("ada", "USER").sessionId("session"));
    String elsewhere = verifier.issue(TestPrincipal.user("ada", "USER"));
    verifier.revoke(one);
    assertEquals(List.of("token_invalid", "token_invalid", "active"), List.of(verdict(one), verdict(other), verdict(elsewhere)));
    verifier.revokeUser("ada");
    assertEquals("token_invalid", verdict(elsewhere));
    assertEquals("active", verdict(verifier.issue(TestPrincipal.user("ada", "USER"))));
    String gone = verifier.issue(TestPrincipal.client("shop", "orders:read").sessionId("credential"));
    String kept = verifier.issue(TestPrincipal.client("shop", "orders:read").sessionId("credential"));
    verifier.revoke(gone);
    assertEquals(List.of("token_invalid", "active"), List.of(verdict(gone), verdict(kept)));
    verifier.revokeSession("credential");
    assertEquals("token_invalid", verdict(kept));
  }

  @Test
  void aTokenEndsByItsTimeOrByACall() {
    String token = verifier.issue(TestPrincipal.user("ada", "USER"));
    time = time.plus(Duration.ofMinutes(15)).plusSeconds(5).minusMillis(1);
    assertEquals("active", verdict(token));
    time = time.plusMillis(1);
    assertEquals("token_expired", verdict(token));
    String ended = verifier.issue(TestPrincipal.user("ada", "USER"));
    verifier.expire(ended);
    assertEquals("token_expired", verdict(ended));
  }

  @Test
  void anOutageIsA503AndNoTokenOfOthersIsAccepted() {
    String token = verifier.issue(TestPrincipal.user("ada", "USER"));
    assertEquals("token_invalid", verdict("test-another"));
    verifier.setAvailable(false);
    assertEquals(List.of("service_unavailable", false), List.of(verdict(token), verifier.isReady()));
    verifier.setAvailable(true);
    assertEquals("active", verdict(token));
  }
}
