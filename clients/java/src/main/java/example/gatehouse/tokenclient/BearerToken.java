package example.gatehouse.tokenclient;

import example.gatehouse.tokenclient.AuthException.Reason;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The token of an {@code Authorization} (RFC 6750 section 2.1). */
public final class BearerToken {
  private static final Pattern SCHEME = Pattern.compile("bearer(?: .*)?", Pattern.CASE_INSENSITIVE | Pattern.DOTALL);
  private static final Pattern CREDENTIALS =
      Pattern.compile("bearer ([A-Za-z0-9\\-._~+/]+=*)", Pattern.CASE_INSENSITIVE);

  private BearerToken() {}

  /**
   * @param authorization all values of the header
   * @throws AuthException token_missing; token_invalid also for several values
   */
  public static String of(List<String> authorization) throws AuthException {
    if (authorization.stream().noneMatch(value -> SCHEME.matcher(value).matches()))
      throw new AuthException(Reason.TOKEN_MISSING);
    Matcher credentials = CREDENTIALS.matcher(authorization.get(0));
    boolean isOne = authorization.size() == 1 && credentials.matches();
    if (!isOne || credentials.group(1).length() > TokenRules.MAX_TOKEN_CHARACTERS)
      throw new AuthException(Reason.TOKEN_INVALID);
    return credentials.group(1);
  }
}
