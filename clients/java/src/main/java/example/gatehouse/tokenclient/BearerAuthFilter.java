package example.gatehouse.tokenclient;

import example.gatehouse.tokenclient.AuthException.Reason;
import jakarta.servlet.DispatcherType;
import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletRequestWrapper;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;

/**
 * Lets only requests of callers through whom a {@link RouteAuth} allows. Behind it {@code getUserPrincipal} and {@code isUserInRole} say
 * who calls. Map it for all dispatcher types: a forward or an asynchronous dispatch may lead to another route.
 *
 * <p>An {@link AuthException} that is the cause of a servlet's {@link ServletException} is answered too, unless the answer has begun.
 */
public final class BearerAuthFilter implements Filter {
  private static final String ADMISSION = BearerAuthFilter.class.getName() + ".admission";

  private record Admission(TokenVerifier verifier, RouteAuth auth, Principal principal) {}

  private final TokenVerifier verifier;
  private final Function<HttpServletRequest, RouteAuth> routes;

  public BearerAuthFilter(TokenVerifier verifier, RouteAuth auth) {
    this(verifier, request -> auth);
  }

  /**
   * @param routes who may call a route; null: nobody. Its path is {@code getServletPath} and {@code getPathInfo}: {@code getRequestURI}
   *     is as the client has written it, with escapes and {@code ;} parameters.
   */
  public BearerAuthFilter(TokenVerifier verifier, Function<HttpServletRequest, RouteAuth> routes) {
    this.verifier = verifier;
    this.routes = routes;
  }

  /**
   * The caller.
   *
   * @throws IllegalStateException if the route is public
   */
  public static Principal principalIn(ServletRequest request) {
    return findPrincipal(request).orElseThrow(() -> new IllegalStateException("this route is public and has no principal"));
  }

  static Optional<Principal> findPrincipal(ServletRequest request) {
    return Optional.ofNullable(admissionOf(request)).map(Admission::principal);
  }

  @Override
  public void doFilter(ServletRequest request, ServletResponse response, FilterChain chain) throws IOException, ServletException {
    HttpServletRequest call = (HttpServletRequest) request;
    HttpServletResponse answer = (HttpServletResponse) response;
    try {
      admit(call);
    } catch (AuthException refusal) {
      refuse(call, answer, refusal);
      return;
    }
    try {
      Optional<Principal> principal = findPrincipal(call);
      chain.doFilter(principal.isPresent() ? new AuthenticatedRequest(call, principal.get()) : call, answer);
    } catch (ServletException failure) {
      if (!(failure.getRootCause() instanceof AuthException refusal) || answer.isCommitted()) throw failure;
      refuse(call, answer, refusal);
    }
  }

  private void admit(HttpServletRequest request) throws AuthException {
    RouteAuth auth = routes.apply(request);
    if (auth == RouteAuth.PUBLIC) return;
    Admission admission = admissionOf(request);
    // A later dispatch of one call has the same caller, whose token may have ended meanwhile. Its route may be another.
    boolean isLater =
        request.getDispatcherType() != DispatcherType.REQUEST && admission != null && admission.verifier == verifier;
    if (isLater && admission.auth == auth) return;
    Principal principal = isLater ? admission.principal : verifier.verify(BearerToken.of(authorization(request)));
    if (auth == null) throw new AuthException(Reason.FORBIDDEN);
    auth.check(principal, verifier.now());
    request.setAttribute(ADMISSION, new Admission(verifier, auth, principal));
  }

  private static List<String> authorization(HttpServletRequest request) {
    Enumeration<String> values = request.getHeaders("Authorization");
    return values == null ? List.of() : Collections.list(values); // Null: the container does not show it.
  }

  private static Admission admissionOf(ServletRequest request) {
    return request.getAttribute(ADMISSION) instanceof Admission admission ? admission : null;
  }

  /** Answers as the filter does. If the answer has begun already, it is left as it is. */
  public static void refuse(HttpServletRequest request, HttpServletResponse response, AuthException refusal) throws IOException {
    if (response.isCommitted()) return;
    byte[] body = refusal.httpBody().getBytes(StandardCharsets.US_ASCII);
    response.resetBuffer(); // Not the headers, such as those of CORS, without which a browser shows no answer.
    response.setStatus(refusal.httpStatus());
    refusal.httpHeaders().forEach(response::setHeader);
    response.setContentLength(body.length);
    if (!request.getMethod().equals("HEAD")) response.getOutputStream().write(body);
  }

  private static final class AuthenticatedRequest extends HttpServletRequestWrapper {
    private final Principal principal;

    AuthenticatedRequest(HttpServletRequest request, Principal principal) {
      super(request);
      this.principal = principal;
    }

    @Override
    public Principal getUserPrincipal() {
      return principal;
    }

    @Override
    public String getRemoteUser() {
      return principal.getName();
    }

    @Override
    public String getAuthType() {
      return "Bearer";
    }

    @Override
    public boolean isUserInRole(String role) {
      return !principal.isClient() && principal.role().equals(role);
    }
  }
}
