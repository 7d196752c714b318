package example.gatehouse.tokenclient;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Timestamp;
import gatehouse.token.v1.TokenServiceOuterClass.Revocation;
import gatehouse.token.v1.TokenServiceOuterClass.TokenRules;
import gatehouse.token.v1.TokenServiceOuterClass.VerifyTokenResponse;
import gatehouse.token.v1.TokenServiceOuterClass.WatchRevocationsResponse;
import org.junit.jupiter.api.Test;

/** The rules of time, with clocks of the test. */
final class RevocationsTest {
  private static final double START_WALL_S = 1_800_000_000;

  private double monotonicS = 1_000;
  private double wallS = START_WALL_S;
  private final Revocations revoked =
      new Revocations(
          1_000_000,
          new Clock() {
            @Override
            public double monotonicS() {
              return monotonicS;
            }

            @Override
            public double wallS() {
              return wallS;
            }
          });

  private void pass(double seconds) {
    monotonicS += seconds;
    wallS += seconds;
  }

  private static WatchRevocationsResponse.Builder message() {
    return WatchRevocationsResponse.newBuilder().setCaughtUp(true).setKeepS(910);
  }

  private static WatchRevocationsResponse end(double endS) {
    Revocation.Builder revocation =
        Revocation.newBuilder().setSessionId("s").setExpiresAt(Timestamp.newBuilder().setSeconds((long) endS));
    return message().addRevocations(revocation).build();
  }

  private boolean knows() {
    return revoked.end(user());
  }

  private static Principal user() {
    VerifyTokenResponse response =
        VerifyTokenResponse.newBuilder()
            .setActive(true)
            .setPrincipal(FakeTokenService.principal(principal -> principal.setSessionId("s")))
            .build();
    return Answers.principal(response, null).orElseThrow();
  }

  @Test
  void threeSecondsCountFromTheRead() {
    assertFalse(revoked.isFresh(user()));
    revoked.apply(message().setElapsedMs(500).build(), monotonicS - 1);
    pass(2.5);
    assertTrue(revoked.isFresh(user()));
    pass(0.01);
    assertFalse(revoked.isFresh(user()));
  }

  @Test
  void afterARevocationOfAnUnknownKindMemoryIsNotTrustedButTheStreamIsHeard() {
    revoked.apply(message().addRevocations(Revocation.newBuilder().setSequence(1)).build(), monotonicS);
    assertTrue(revoked.isHeard());
    assertFalse(revoked.isFresh(user()));
    pass(3.1);
    assertFalse(revoked.isHeard());
  }

  @Test
  void theTimeOfTokenServiceGoesOnInSilenceUnlessThisMachinesIsLater() {
    assertEquals(wallS, revoked.nowS());
    long serverS = (long) wallS + 3_600;
    revoked.apply(message().setReadAt(Timestamp.newBuilder().setSeconds(serverS)).build(), monotonicS);
    pass(10);
    assertEquals(null, revoked.serverNowS());
    assertEquals(serverS + 10, revoked.nowS(), 1e-3);
    wallS += 7_200;
    assertEquals(wallS, revoked.nowS());
    revoked.apply(message().setReadAt(Timestamp.newBuilder().setSeconds(1_000)).build(), monotonicS);
    assertEquals(1_000, revoked.nowS(), 1e-3);
  }

  @Test
  void theShortestLifeOfARevocationThatWasHeardCounts() {
    double askedS = monotonicS;
    for (int keepS : new int[] {910, 70, 910, 0}) revoked.apply(message().setKeepS(keepS).build(), monotonicS);
    pass(69);
    assertTrue(revoked.keepsSince(askedS));
    pass(1);
    assertFalse(revoked.keepsSince(askedS));
  }

  @Test
  void aLateMessageCountsAndOpensTheStreamAnew() {
    assertFalse(revoked.apply(message().setElapsedMs(0).build(), monotonicS - 2.1));
    assertTrue(revoked.isFresh(user()));
  }

  @Test
  void aMessageOfALaterReadThanCanBeDoesNotCount() {
    assertFalse(revoked.apply(message().setElapsedMs(3_000).build(), monotonicS - 1.9));
    assertFalse(revoked.isFresh(user()));
  }

  @Test
  void aWallClockThatWentOnWhileThisMachineSleptEndsTheTrust() {
    revoked.apply(message().build(), monotonicS);
    wallS += 5;
    assertTrue(revoked.isFresh(user()));
    wallS += 0.1;
    assertFalse(revoked.isFresh(user()));
  }

  @Test
  void aRevocationIsKeptByTheMonotonicClockWhateverItsEndSays() {
    revoked.apply(end(0), monotonicS);
    wallS += 86_400;
    pass(909);
    revoked.apply(message().build(), monotonicS);
    assertTrue(knows());
    pass(2);
    revoked.apply(message().build(), monotonicS);
    assertFalse(knows());
  }

  @Test
  void aWallClockMayExtendItToTheLongestLifeOfAToken() {
    revoked.apply(end(START_WALL_S + 86_400), monotonicS);
    pass(3_609);
    revoked.apply(message().build(), monotonicS);
    assertTrue(knows());
    pass(2);
    revoked.apply(message().build(), monotonicS);
    assertFalse(knows());
  }

  @Test
  void rulesHoldForTheStreamThatSentThem() {
    revoked.nextRequest();
    revoked.apply(message().setRules(TokenRules.newBuilder().setIssuer("i")).build(), monotonicS);
    revoked.apply(message().build(), monotonicS);
    assertNotNull(revoked.rules());
    revoked.nextRequest();
    revoked.apply(message().build(), monotonicS);
    assertNull(revoked.rules());
  }

  @Test
  void theServersTimeGoesOnByTheMonotonicClock() {
    revoked.apply(message().setElapsedMs(0).setReadAt(Timestamp.newBuilder().setSeconds(9_000)).build(), monotonicS);
    pass(2);
    assertEquals(9_002, revoked.serverNowS());
    pass(2);
    assertNull(revoked.serverNowS());
  }
}
