package example.gatehouse.tokenclient;

import com.google.protobuf.ByteString;
import com.google.protobuf.Timestamp;
import gatehouse.token.v1.TokenServiceOuterClass.PartState;
import gatehouse.token.v1.TokenServiceOuterClass.Revocation;
import gatehouse.token.v1.TokenServiceOuterClass.VerificationKey;
import gatehouse.token.v1.TokenServiceOuterClass.WatchRevocationsRequest;
import gatehouse.token.v1.TokenServiceOuterClass.WatchRevocationsResponse;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * What is revoked, as far as this process knows, and how far that is. By the monotonic clock: a jump of the wall clock
 * must not drop a revocation. The caller holds a lock.
 */
final class Revocations {
  /** After this silence, unknown revocations may exist. */
  static final double STALE_AFTER_S = 3;

  /** Longest life of an access token, clock skew included. */
  static final double MAX_KEEP_S = 3610;

  /** A slow connection start counts as lag for the life of a stream. */
  static final double MAX_MESSAGE_AGE_S = 2;

  /** A read further in the future proves that this machine was suspended. */
  private static final double MAX_MESSAGE_AHEAD_S = 1;

  private static final double WALL_CLOCK_ROOM_S = 2;
  private static final Pattern SLOT = Pattern.compile("[0-9a-f]{3}");
  private static final System.Logger LOG = System.getLogger(Revocations.class.getName());

  /** What one database has that is the only one. */
  private static final ByteString ALL_SLOTS = allSlots();

  private final int maxEntries;
  private final Clock clock;
  private final Map<String, Double> sessionsUntil = new HashMap<>();
  private final Map<String, Double> keysUntil = new HashMap<>();
  private long sequence;
  private String tip = "";
  private double forgotAtS = Double.NEGATIVE_INFINITY;
  private double incompleteUntilS = Double.NEGATIVE_INFINITY;
  private boolean knowsAllKinds = true;
  private double leastKeptS = MAX_KEEP_S;
  private final Part first = new Part();
  private final Map<Integer, Part> parts = new HashMap<>(Map.of(0, first));
  private Double serverReadAtS;
  private TokenRules rules;
  private boolean isFirstMessage = true;

  /** What is known of the users in one database (docs/decisions/parts.md). The first one has the keys, too. */
  private final class Part {
    private double readAtS = Double.NEGATIVE_INFINITY;
    private double heardAtWallS;

    /** Of that read. */
    private ByteString slots = ByteString.EMPTY;

    /** Slots that count with the next read. Empty: unchanged. */
    private ByteString said = ByteString.EMPTY;

    boolean has(int slot) {
      return slot / 8 < slots.size() && (slots.byteAt(slot / 8) & 0x80 >> slot % 8) != 0;
    }

    boolean isHeard() {
      if (clock.monotonicS() - readAtS > STALE_AFTER_S) return false;
      // The monotonic clock may stop during a suspend.
      return clock.wallS() - heardAtWallS <= STALE_AFTER_S + WALL_CLOCK_ROOM_S;
    }
  }

  Revocations(int maxEntries, Clock clock) {
    this.maxEntries = maxEntries;
    this.clock = clock;
  }

  WatchRevocationsRequest nextRequest() {
    isFirstMessage = true;
    return WatchRevocationsRequest.newBuilder().setAfterSequence(sequence).setTip(tip).build();
  }

  /** Whether every revocation older than 3 s that can concern this principal is known, and understood. */
  boolean isFresh(Principal principal) {
    if (!isHeard() || !knowsAllKinds) return false;
    if (principal.isClient()) return true;
    String id = principal.sessionId();
    String digits = id.substring(Math.max(0, id.length() - 3));
    int slot = SLOT.matcher(digits).matches() ? Integer.parseInt(digits, 16) : 0;
    // During a move two parts may have it: what either knows is all there was at its read.
    return parts.values().stream().anyMatch(part -> part.has(slot) && part.isHeard());
  }

  /**
   * Whether nothing that was revoked since is forgotten. While token-service's replicas are set to another life of a token, tokens of
   * the longer one are in memory beside revocations of the shorter one.
   */
  boolean keepsSince(double askedS) {
    return clock.monotonicS() < askedS + leastKeptS;
  }

  /** Whether all messages older than 3 s have come, of the first part. */
  boolean isHeard() {
    return first.isHeard();
  }

  /** False after a lack of room, until no affected token is valid. */
  boolean isComplete() {
    return clock.monotonicS() >= incompleteUntilS;
  }

  /** When token-service last read its log, by the monotonic clock: a lower bound. */
  double readAtS() {
    return first.readAtS;
  }

  /** Null while unknown, or if token-service is too old. */
  TokenRules rules() {
    return isHeard() ? rules : null;
  }

  /** Time of token-service, at most 3 s ahead. Null while unknown. */
  Double serverNowS() {
    return isHeard() ? serverTimeS() : null;
  }

  /** Time of token-service. In silence that of this machine if it is later: the monotonic clock may stop during a suspend. */
  double nowS() {
    Double reportedS = serverTimeS();
    double wallS = clock.wallS();
    return reportedS != null && (isHeard() || reportedS > wallS) ? reportedS : wallS;
  }

  private Double serverTimeS() {
    return serverReadAtS == null ? null : serverReadAtS + clock.monotonicS() - first.readAtS;
  }

  /** Ends by its session or credential, its key, or, of a client, this one token (RFC 7009). */
  boolean end(Principal principal) {
    if (sessionsUntil.containsKey(principal.sessionId())) return true;
    if (keysUntil.containsKey(principal.keyId()) || keysUntil.containsKey(principal.originKeyId())) return true;
    return principal.isClient()
        && (sessionsUntil.containsKey(principal.tokenId()) || sessionsUntil.containsKey(principal.originTokenId()));
  }

  /**
   * @param openedS when the stream was opened, by the monotonic clock
   * @return false if the stream is to be opened anew
   */
  boolean apply(WatchRevocationsResponse message, double openedS) {
    double receivedS = clock.monotonicS();
    forgetEnded(receivedS);
    takeRevocations(message, receivedS);
    takeRules(message);
    sequence = message.getSequence();
    tip = message.getTip();
    if (message.hasPart()) return hear(message.getPart(), openedS, receivedS);
    parts.keySet().retainAll(Set.of(0));
    PartState.Builder state = PartState.newBuilder().setCaughtUp(message.getCaughtUp()).setElapsedMs(message.getElapsedMs());
    if (message.hasReadAt()) state.setReadAt(message.getReadAt());
    return hear(state.setSlots(ALL_SLOTS).build(), openedS, receivedS);
  }

  private boolean hear(PartState state, double openedS, double receivedS) {
    Part part = parts.computeIfAbsent(state.getNumber(), number -> new Part());
    if (!state.getSlots().isEmpty()) part.said = state.getSlots();
    if (!state.getCaughtUp()) return true;
    // The read was not earlier, because the stream began after this request.
    double readS = openedS + Integer.toUnsignedLong(state.getElapsedMs()) / 1e3;
    if (readS > receivedS + MAX_MESSAGE_AHEAD_S) return false;
    if (readS >= part.readAtS) {
      part.readAtS = Math.min(readS, receivedS);
      part.heardAtWallS = clock.wallS();
      if (!part.said.isEmpty()) part.slots = part.said;
      part.said = ByteString.EMPTY;
      if (part == first) serverReadAtS = state.hasReadAt() ? seconds(state.getReadAt()) : null;
    }
    return receivedS - readS <= MAX_MESSAGE_AGE_S;
  }

  private void takeRevocations(WatchRevocationsResponse message, double receivedS) {
    double leastS = message.getKeepS() == 0 ? MAX_KEEP_S : Integer.toUnsignedLong(message.getKeepS());
    leastKeptS = Math.min(leastKeptS, leastS);
    for (Revocation revocation : message.getRevocationsList()) {
      // The wall clock may only extend this.
      double reportedS = revocation.hasExpiresAt() ? seconds(revocation.getExpiresAt()) - clock.wallS() : MAX_KEEP_S;
      double untilS = receivedS + Math.max(leastS, Math.min(reportedS, MAX_KEEP_S));
      switch (revocation.getTargetCase()) {
        case SESSION_ID -> add(sessionsUntil, revocation.getSessionId(), untilS);
        case KEY_ID -> add(keysUntil, revocation.getKeyId(), untilS);
        default -> distrust();
      }
    }
  }

  private void takeRules(WatchRevocationsResponse message) {
    if (message.hasRules()) {
      Map<String, String> algorithms =
          message.getRules().getKeysList().stream()
              .collect(Collectors.toMap(VerificationKey::getKeyId, VerificationKey::getAlgorithm, (one, other) -> other));
      rules = new TokenRules(message.getRules().getIssuer(), algorithms);
    } else if (isFirstMessage) {
      rules = null;
    }
    isFirstMessage = false;
  }

  /** Unknown targets cannot be checked: token-service must verify every token. */
  private void distrust() {
    if (knowsAllKinds) {
      LOG.log(System.Logger.Level.ERROR, "token-service revokes something that this version does not know: update it");
    }
    knowsAllKinds = false;
  }

  private void add(Map<String, Double> map, String id, double untilS) {
    if (map.containsKey(id) || sessionsUntil.size() + keysUntil.size() < maxEntries) map.merge(id, untilS, Math::max);
    else incompleteUntilS = Math.max(untilS, incompleteUntilS);
  }

  private void forgetEnded(double nowS) {
    if (nowS - forgotAtS < 1) return;
    forgotAtS = nowS;
    sessionsUntil.values().removeIf(untilS -> untilS < nowS);
    keysUntil.values().removeIf(untilS -> untilS < nowS);
  }

  private static ByteString allSlots() {
    byte[] all = new byte[512];
    Arrays.fill(all, (byte) 0xff);
    return ByteString.copyFrom(all);
  }

  private static double seconds(Timestamp time) {
    return time.getSeconds() + time.getNanos() / 1e9;
  }
}
