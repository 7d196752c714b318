package example.gatehouse.tokenclient;

import java.io.IOException;
import java.security.GeneralSecurityException;
import java.time.Duration;
import java.time.Instant;
import java.util.concurrent.CompletableFuture;
import java.util.regex.Pattern;

/**
 * Verifies access tokens and API keys. One for each process, for all its threads.
 *
 * <p>The first sight of a token is a call of token-service; then it is answered from memory until it expires, checked
 * each time against the stream of revocations. While token-service has been silent for 3 s every token needs a call. A
 * token that is bound to a key is always invalid.
 */
public interface TokenVerifier extends AutoCloseable {
  /** @param address {@code host:port} of token-service. A name with several addresses is balanced. */
  static Builder builder(String address, TlsFiles tls) {
    return new Builder(address, tls);
  }

  /** Says whose the token is. A call of token-service blocks; for a token of an unknown key, few threads wait at a time. */
  Principal verify(String token) throws AuthException;

  /** As {@link #verify}. An {@link AuthException} is the cause of the failure. */
  CompletableFuture<Principal> verifyAsync(String token);

  /**
   * Time of token-service, at most 3 s ahead: for {@link RouteAuth#check(Principal, Instant)}. The clock of this machine, which may be
   * wrong, counts before the first message, and in silence if it is later.
   */
  Instant now();

  /**
   * For readiness: false until all revocations have been read, and while token-service is silent. After a revocation of an
   * unknown kind it stays true: every token then needs a call, which works.
   */
  boolean isReady();

  /** Ends the stream and the connection. */
  @Override
  void close();

  /** How to reach token-service, and what to accept. */
  final class Builder {
    private static final Pattern AUDIENCE = Pattern.compile("[\\x21\\x23-\\x5b\\x5d-\\x7e]{1,200}");

    final String address;
    final TlsFiles tls;
    String audience;
    boolean acceptsIssuer;
    int maxCachedTokens = 50_000;
    int maxRevocations = 1_000_000;
    Duration callTimeout = Duration.ofMillis(800);
    Clock clock = Clock.SYSTEM;
    int maxCallsInFlight = 1_000;
    Duration refresh = Duration.ofSeconds(30);

    private Builder(String address, TlsFiles tls) {
      this.address = address;
      this.tls = tls;
    }

    /**
     * This service's name in the gateway's routes file: tokens for others, also for the issuer, and API keys are then
     * invalid. By default tokens for the issuer are accepted.
     */
    public Builder audience(String name) {
      if (!AUDIENCE.matcher(name).matches())
        throw new IllegalArgumentException("audience must be a URI or a name such as payments, of at most 200 characters");
      this.audience = name;
      return this;
    }

    /** Accepts tokens for the issuer as well: while a service that runs gets an audience. */
    public Builder acceptsIssuer(boolean accepts) {
      this.acceptsIssuer = accepts;
      return this;
    }

    /** About 1 KiB each. */
    public Builder maxCachedTokens(int count) {
      this.maxCachedTokens = count;
      return this;
    }

    /** Beyond it every token needs a call. */
    public Builder maxRevocations(int count) {
      this.maxRevocations = count;
      return this;
    }

    public Builder callTimeout(Duration timeout) {
      this.callTimeout = timeout;
      return this;
    }

    Builder maxCallsInFlight(int count) {
      this.maxCallsInFlight = count;
      return this;
    }

    /** Of the certificate files. */
    Builder refresh(Duration interval) {
      this.refresh = interval;
      return this;
    }

    Builder clock(Clock clock) {
      this.clock = clock;
      return this;
    }

    /**
     * Connects in the background.
     *
     * @throws IOException if the files cannot be read
     * @throws GeneralSecurityException if they are no certificates and key
     */
    public TokenVerifier build() throws IOException, GeneralSecurityException {
      return new TokenServiceVerifier(this);
    }
  }
}
