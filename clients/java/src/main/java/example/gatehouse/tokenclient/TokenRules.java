package example.gatehouse.tokenclient;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import com.google.gson.JsonPrimitive;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;

/** Finds text that token-service would refuse whatever its signature, without a call. */
record TokenRules(String issuer, Map<String, String> algorithms) {

  /** {@code PLAUSIBLE} proves nothing. */
  enum Screening {
    PLAUSIBLE,
    INVALID,
    EXPIRED,
    UNKNOWN_KEY
  }

  static final int MAX_TOKEN_CHARACTERS = 4096;
  private static final Pattern TOKEN_SHAPE =
      Pattern.compile("[A-Za-z0-9_-]+\\.[A-Za-z0-9_-]+\\.[A-Za-z0-9_-]+");
  private static final Pattern API_KEY = Pattern.compile("gh_[0-9a-f]{32}_[A-Za-z0-9_-]{43}");
  private static final Pattern KEY_ID = Pattern.compile("[A-Za-z0-9_-]{43}");
  private static final int SIGNATURE_CHARACTERS = 86;
  private static final Set<String> ALGORITHMS = Set.of("EdDSA", "ES256");
  private static final Set<String> HEADER_MEMBERS = Set.of("alg", "typ", "kid");

  /** Exceeds the leeway of token-service (5 s) plus the uncertainty of its time (3 s). */
  private static final double EXPIRED_FOR_CERTAIN_S = 10;

  static boolean isTokenShape(String text) {
    return text.length() <= MAX_TOKEN_CHARACTERS && TOKEN_SHAPE.matcher(text).matches();
  }

  static boolean isApiKey(String text) {
    return API_KEY.matcher(text).matches();
  }

  /** What the token says itself; nobody has checked it. */
  static Optional<String> claimedAudience(String token) {
    String[] segments = token.split("\\.", -1);
    return segments.length == 3 ? object(segments[1]).flatMap(claims -> string(claims, "aud")) : Optional.empty();
  }

  /**
   * @param text of the shape of a token
   * @param audience null: the issuer
   * @param serverNowS null: unknown
   */
  Screening screen(String text, String audience, Double serverNowS) {
    String[] segments = text.split("\\.", -1);
    JsonObject header = object(segments[0]).orElse(null);
    JsonObject claims = object(segments[1]).orElse(null);
    if (header == null || claims == null || segments[2].length() != SIGNATURE_CHARACTERS) return Screening.INVALID;
    String keyId = string(header, "kid").orElse("");
    String algorithm = string(header, "alg").orElse("");
    boolean isHeader = header.keySet().equals(HEADER_MEMBERS) && is(header, "typ", "at+jwt");
    if (!isHeader || !KEY_ID.matcher(keyId).matches()) return Screening.INVALID;
    if (!is(claims, "iss", issuer) || !is(claims, "aud", audience == null ? issuer : audience)) return Screening.INVALID;
    Optional<Double> expiresS = number(claims, "exp");
    if (expiresS.isEmpty()) return Screening.INVALID;
    String expected = algorithms.get(keyId);
    if (expected == null ? !ALGORITHMS.contains(algorithm) : !expected.equals(algorithm)) return Screening.INVALID;
    // Before the key: a key leaves when its last token has ended.
    if (serverNowS != null && expiresS.get() + EXPIRED_FOR_CERTAIN_S <= serverNowS) return Screening.EXPIRED;
    return expected == null ? Screening.UNKNOWN_KEY : Screening.PLAUSIBLE;
  }

  private static boolean is(JsonObject object, String name, String value) {
    return string(object, name).filter(value::equals).isPresent();
  }

  private static Optional<String> string(JsonObject object, String name) {
    return primitive(object, name).filter(JsonPrimitive::isString).map(JsonPrimitive::getAsString);
  }

  private static Optional<Double> number(JsonObject object, String name) {
    return primitive(object, name).filter(JsonPrimitive::isNumber).map(JsonPrimitive::getAsDouble);
  }

  private static Optional<JsonPrimitive> primitive(JsonObject object, String name) {
    JsonElement value = object.get(name);
    return value instanceof JsonPrimitive primitive ? Optional.of(primitive) : Optional.empty();
  }

  private static Optional<JsonObject> object(String segment) {
    try {
      byte[] bytes = Base64.getUrlDecoder().decode(segment);
      boolean isOneForm = Base64.getUrlEncoder().withoutPadding().encodeToString(bytes).equals(segment);
      if (!isOneForm) return Optional.empty();
      JsonElement value = JsonParser.parseString(new String(bytes, StandardCharsets.UTF_8));
      return value instanceof JsonObject object ? Optional.of(object) : Optional.empty();
    } catch (IllegalArgumentException | JsonParseException | IllegalStateException error) {
      return Optional.empty();
    }
  }
}
