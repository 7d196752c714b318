package example.gatehouse.tokenclient;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.protobuf.Any;
import com.google.rpc.Code;
import com.google.rpc.ErrorInfo;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;

/** Why a call is not carried out. The codes are those of Gatehouse's docs/errors.md. */
public final class AuthException extends Exception {
  private static final long serialVersionUID = 1;

  /** What the caller receives. */
  public enum Reason {
    TOKEN_MISSING("token_missing", 401, Code.UNAUTHENTICATED, "The call needs an access token."),
    TOKEN_INVALID(
        "token_invalid",
        401,
        Code.UNAUTHENTICATED,
        "The access token was not issued here, is malformed or has been revoked."),
    TOKEN_EXPIRED("token_expired", 401, Code.UNAUTHENTICATED, "The access token has expired; refresh it."),
    STEP_UP_REQUIRED(
        "step_up_required",
        401,
        Code.UNAUTHENTICATED,
        "The call needs a stronger or more recent proof of who the user is; `details` says which. See `POST /auth/step-up`."),
    FORBIDDEN(
        "forbidden",
        403,
        Code.PERMISSION_DENIED,
        "The caller's role, or the client's scope, does not allow this call."),
    USER_REQUIRED(
        "user_required",
        403,
        Code.PERMISSION_DENIED,
        "The call needs a step-up or an approval, which only a user can give."),
    /** The token's state cannot be known now: never 401. */
    SERVICE_UNAVAILABLE(
        "service_unavailable",
        503,
        Code.UNAVAILABLE,
        "A part of Gatehouse is temporarily unavailable; try again.");

    private final String code;
    private final int httpStatus;
    private final Code rpcCode;
    private final String message;

    Reason(String code, int httpStatus, Code rpcCode, String message) {
      this.code = code;
      this.httpStatus = httpStatus;
      this.rpcCode = rpcCode;
      this.message = message;
    }
  }

  private final Reason reason;
  private final transient AssuranceDemand demand;
  private final transient int currentAcr;

  /** @throws IllegalArgumentException for a step-up, which has a demand: see {@link RouteAuth#check(Principal, java.time.Instant)} */
  public AuthException(Reason reason) {
    this(reason, null);
    if (reason == Reason.STEP_UP_REQUIRED) throw new IllegalArgumentException("RouteAuth.check refuses with the demand of a step-up");
  }

  AuthException(Reason reason, Throwable cause) {
    super(reason.message, cause);
    this.reason = reason;
    this.demand = null;
    this.currentAcr = 0;
  }

  private AuthException(AssuranceDemand demand, int currentAcr) {
    super(Reason.STEP_UP_REQUIRED.message);
    this.reason = Reason.STEP_UP_REQUIRED;
    this.demand = demand;
    this.currentAcr = currentAcr;
  }

  static AuthException stepUp(AssuranceDemand demand, int currentAcr) {
    return new AuthException(demand, currentAcr);
  }

  static AuthException unavailable(String why) {
    return new AuthException(Reason.SERVICE_UNAVAILABLE, new IllegalStateException(why));
  }

  public Reason reason() {
    return reason;
  }

  /** Such as {@code token_invalid}. */
  public String code() {
    return reason.code;
  }

  public int httpStatus() {
    return reason.httpStatus;
  }

  /** Of the answer, with {@code WWW-Authenticate} (RFC 6750 section 3, RFC 9470 section 3) and {@code Retry-After} where they belong. */
  public Map<String, String> httpHeaders() {
    Map<String, String> headers = new LinkedHashMap<>();
    headers.put("Content-Type", "application/json");
    headers.put("Cache-Control", "no-store");
    challenge().ifPresent(challenge -> headers.put("WWW-Authenticate", challenge));
    if (reason == Reason.SERVICE_UNAVAILABLE) headers.put("Retry-After", "1");
    return headers;
  }

  private Optional<String> challenge() {
    if (demand != null) return Optional.of(demand.challenge());
    return switch (reason) {
      case TOKEN_MISSING -> Optional.of("Bearer");
      case TOKEN_INVALID, TOKEN_EXPIRED -> Optional.of("Bearer error=\"invalid_token\"");
      case FORBIDDEN -> Optional.of("Bearer error=\"insufficient_scope\"");
      default -> Optional.empty();
    };
  }

  /** The answer of Gatehouse's HTTP services, in ASCII. Not for {@code HEAD}. */
  public String httpBody() {
    JsonObject error = new JsonObject();
    error.addProperty("code", reason.code);
    if (demand != null) error.add("details", details());
    JsonObject body = new JsonObject();
    body.addProperty("success", false);
    body.addProperty("message", getMessage());
    body.add("error", error);
    return body.toString();
  }

  /** With a {@code google.rpc.ErrorInfo} whose reason is the code (AIP-193). */
  public StatusRuntimeException toStatusException() {
    ErrorInfo.Builder info = ErrorInfo.newBuilder().setReason(reason.code).setDomain("gatehouse");
    if (demand != null) info.putMetadata("step_up_demand", details().toString());
    return StatusProto.toStatusRuntimeException(
        com.google.rpc.Status.newBuilder()
            .setCode(reason.rpcCode.getNumber())
            .setMessage(reason.message)
            .addDetails(Any.pack(info.build()))
            .build());
  }

  private JsonObject details() {
    JsonObject details = new JsonObject();
    details.addProperty("acr", demand.acr());
    if (demand.maxAge() != null) details.addProperty("maxAgeSeconds", demand.maxAge().toSeconds());
    JsonArray methods = new JsonArray();
    demand.methods(currentAcr).forEach(methods::add);
    details.add("methods", methods);
    return details;
  }
}
