package example.gatehouse.tokenclient;

import example.gatehouse.tokenclient.AuthException.Reason;
import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServletRequest;
import java.io.IOException;
import java.util.List;
import java.util.function.Function;
import java.util.stream.Stream;
import org.springframework.security.config.annotation.web.builders.HttpSecurity;
import org.springframework.security.config.annotation.web.configurers.AbstractHttpConfigurer;
import org.springframework.security.config.annotation.web.configurers.CsrfConfigurer;
import org.springframework.security.core.GrantedAuthority;
import org.springframework.security.core.authority.SimpleGrantedAuthority;
import org.springframework.security.core.context.SecurityContext;
import org.springframework.security.web.authentication.preauth.PreAuthenticatedAuthenticationToken;
import org.springframework.security.web.csrf.CsrfFilter;
import org.springframework.security.web.savedrequest.NullRequestCache;
import org.springframework.security.web.savedrequest.RequestCache;

/**
 * {@link BearerAuthFilter} in a chain of Spring Security: {@code http.with(new SpringBearerAuth(verifier, auth), withDefaults())}. The
 * authentication's principal is the {@link Principal}, with the authority {@code ROLE_} and the user's role, or {@code SCOPE_} and each
 * scope of a client. What Spring Security denies is answered as the filter does. No session keeps the caller.
 */
public final class SpringBearerAuth extends AbstractHttpConfigurer<SpringBearerAuth, HttpSecurity> {
  private final BearerAuthFilter bearerAuth;

  public SpringBearerAuth(TokenVerifier verifier, RouteAuth auth) {
    this.bearerAuth = new BearerAuthFilter(verifier, auth);
  }

  /** @param routes as of {@link BearerAuthFilter#BearerAuthFilter(TokenVerifier, Function)} */
  public SpringBearerAuth(TokenVerifier verifier, Function<HttpServletRequest, RouteAuth> routes) {
    this.bearerAuth = new BearerAuthFilter(verifier, routes);
  }

  @Override
  @SuppressWarnings("unchecked")
  public void init(HttpSecurity http) {
    http.setSharedObject(RequestCache.class, new NullRequestCache());
    http.exceptionHandling(
        handling ->
            handling
                .authenticationEntryPoint((request, response, missing) -> BearerAuthFilter.refuse(request, response, new AuthException(Reason.TOKEN_MISSING)))
                .accessDeniedHandler((request, response, denied) -> BearerAuthFilter.refuse(request, response, new AuthException(Reason.FORBIDDEN))));
    // No other site can make a browser send an access token. Null: the chain has no such protection.
    CsrfConfigurer<HttpSecurity> csrf = http.getConfigurer(CsrfConfigurer.class);
    if (csrf != null) csrf.ignoringRequestMatchers(request -> BearerAuthFilter.findPrincipal(request).isPresent());
  }

  @Override
  public void configure(HttpSecurity http) {
    Filter filter =
        (request, response, chain) ->
            bearerAuth.doFilter(request, response, (admitted, answer) -> authenticate(admitted, answer, chain));
    http.addFilterBefore(filter, CsrfFilter.class);
  }

  private void authenticate(ServletRequest request, ServletResponse response, FilterChain chain) throws IOException, ServletException {
    BearerAuthFilter.findPrincipal(request).ifPresent(principal -> {
      SecurityContext context = getSecurityContextHolderStrategy().createEmptyContext();
      context.setAuthentication(new PreAuthenticatedAuthenticationToken(principal, "", authorities(principal)));
      getSecurityContextHolderStrategy().setContext(context);
    });
    chain.doFilter(request, response);
  }

  private static List<GrantedAuthority> authorities(Principal principal) {
    Stream<String> names =
        principal.isClient() ? principal.scopes().stream().map("SCOPE_"::concat) : Stream.of("ROLE_" + principal.role());
    return names.<GrantedAuthority>map(SimpleGrantedAuthority::new).toList();
  }
}
