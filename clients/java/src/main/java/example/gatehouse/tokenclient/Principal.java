package example.gatehouse.tokenclient;

import java.time.Instant;
import java.util.List;
import java.util.Set;

/**
 * Who a verified access token or API key speaks for.
 *
 * @param userId empty for clients
 * @param sessionId of a client: its credential's id
 * @param role a name of access.yaml; empty for clients
 * @param clientId empty for users
 * @param scopes permissions that a client was granted; empty for users
 * @param originTokenId of the token that this one was exchanged for, and whose revocation ends it; empty for others
 * @param keyId empty for an API key
 * @param originKeyId {@code keyId} of the token that this one was exchanged for; empty for others, and if it was an API key
 * @param amr how the user authenticated (RFC 8176)
 * @param acr level of assurance: 1 one factor, 2 two factors, 3 a passkey with user verification
 * @param authTime the last moment at which the session reached {@code acr}
 */
public record Principal(
    Kind kind,
    String userId,
    String sessionId,
    String role,
    String clientId,
    Set<String> scopes,
    String tokenId,
    String originTokenId,
    String keyId,
    String originKeyId,
    List<String> amr,
    int acr,
    Instant authTime,
    Instant issuedAt,
    Instant expiresAt)
    implements java.security.Principal {

  /** A client is a program. */
  public enum Kind {
    USER,
    CLIENT
  }

  public boolean isClient() {
    return kind == Kind.CLIENT;
  }

  /** The id of the user, or of the client. */
  @Override
  public String getName() {
    return isClient() ? clientId : userId;
  }
}
