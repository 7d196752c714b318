package example.gatehouse.tokenclient;

import static org.junit.jupiter.api.Assertions.assertEquals;

import example.gatehouse.tokenclient.AuthException.Reason;
import example.gatehouse.tokenclient.testing.TestPrincipal;
import example.gatehouse.tokenclient.testing.TestVerifier;
import jakarta.servlet.DispatcherType;
import jakarta.servlet.FilterRegistration;
import jakarta.servlet.ServletContext;
import jakarta.servlet.ServletRegistration;
import java.net.CookieManager;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.EnumSet;
import java.util.List;
import java.util.concurrent.Callable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.security.access.prepost.PreAuthorize;
import org.springframework.security.config.Customizer;
import org.springframework.security.config.annotation.method.configuration.EnableMethodSecurity;
import org.springframework.security.config.annotation.web.builders.HttpSecurity;
import org.springframework.security.config.annotation.web.configuration.EnableWebSecurity;
import org.springframework.security.core.annotation.AuthenticationPrincipal;
import org.springframework.security.core.context.SecurityContextHolder;
import org.springframework.security.web.SecurityFilterChain;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.context.support.AnnotationConfigWebApplicationContext;
import org.springframework.web.filter.DelegatingFilterProxy;
import org.springframework.web.servlet.DispatcherServlet;
import org.springframework.web.servlet.config.annotation.EnableWebMvc;

final class SpringBearerAuthTest {
  private static final RouteAuth CALLERS = RouteAuth.AUTHENTICATED.andClientsWith("orders:read");

  private final TestVerifier verifier = new TestVerifier();
  private final CookieManager cookies = new CookieManager();
  private final HttpClient client = HttpClient.newBuilder().cookieHandler(cookies).build();
  private TomcatServer server;

  @BeforeEach
  void start() throws Exception {
    server = new TomcatServer(this::deploy);
  }

  @AfterEach
  void stop() throws Exception {
    server.close();
  }

  private void deploy(ServletContext context) {
    AnnotationConfigWebApplicationContext beans = new AnnotationConfigWebApplicationContext();
    beans.setServletContext(context);
    beans.register(Application.class);
    beans.addBeanFactoryPostProcessor(factory -> factory.registerSingleton("verifier", verifier));
    FilterRegistration.Dynamic chain =
        context.addFilter("security", new DelegatingFilterProxy("springSecurityFilterChain", beans));
    chain.setAsyncSupported(true);
    chain.addMappingForUrlPatterns(EnumSet.allOf(DispatcherType.class), false, "/*");
    ServletRegistration.Dynamic routes = context.addServlet("routes", new DispatcherServlet(beans));
    routes.setAsyncSupported(true);
    routes.setLoadOnStartup(1);
    routes.addMapping("/");
  }

  @EnableWebMvc
  @EnableWebSecurity
  @EnableMethodSecurity
  @Import(Orders.class)
  static class Application {
    @Bean
    SecurityFilterChain api(HttpSecurity http, TokenVerifier verifier) throws Exception {
      return http.with(
              new SpringBearerAuth(verifier, request -> request.getServletPath().startsWith("/open") ? RouteAuth.PUBLIC : CALLERS),
              Customizer.withDefaults())
          .authorizeHttpRequests(
              routes -> routes.requestMatchers("/open").permitAll().anyRequest().authenticated())
          .build();
    }
  }

  @RestController
  static class Orders {
    @GetMapping("/whoami")
    String whoami(@AuthenticationPrincipal Principal caller) {
      return caller.getName();
    }

    @GetMapping("/later")
    Callable<String> later() {
      return () -> SecurityContextHolder.getContext().getAuthentication().getName();
    }

    @PostMapping("/orders")
    @PreAuthorize("hasRole('ADMIN')")
    String create() {
      return "created";
    }

    @GetMapping("/orders")
    @PreAuthorize("hasAuthority('SCOPE_orders:read')")
    String list() {
      return "listed";
    }

    @GetMapping({"/open", "/open/not"})
    String open() {
      return "open";
    }

    @PostMapping("/open")
    String change() {
      return "changed";
    }
  }

  private String call(String method, String path, String... authorization) throws Exception {
    HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(server.url() + path)).timeout(Duration.ofSeconds(60));
    for (String value : authorization) request.header("Authorization", value);
    HttpResponse<String> response =
        client.send(request.method(method, HttpRequest.BodyPublishers.noBody()).build(), BodyHandlers.ofString());
    return response.statusCode() + " " + response.body();
  }

  private String user(String role) {
    return "Bearer " + verifier.issue(TestPrincipal.user("ada", role));
  }

  private static String answer(Reason reason) {
    AuthException refusal = new AuthException(reason);
    return refusal.httpStatus() + " " + refusal.httpBody();
  }

  @Test
  void methodsAreAllowedByRoleAndByScope() throws Exception {
    String shop = "Bearer " + verifier.issue(TestPrincipal.client("shop", "orders:read"));
    assertEquals("200 ada", call("GET", "/whoami", user("USER")));
    assertEquals("200 created", call("POST", "/orders", user("ADMIN")));
    assertEquals("200 listed", call("GET", "/orders", shop));
    assertEquals(answer(Reason.FORBIDDEN), call("POST", "/orders", user("USER")));
    assertEquals(answer(Reason.FORBIDDEN), call("POST", "/orders", shop));
    assertEquals(answer(Reason.FORBIDDEN), call("GET", "/orders", user("ADMIN")));
  }

  @Test
  void aRefusalIsThatOfTheFilter() throws Exception {
    assertEquals(answer(Reason.TOKEN_MISSING), call("POST", "/orders"));
    assertEquals(answer(Reason.TOKEN_MISSING), call("GET", "/open/not")); // public to the filter alone
    assertEquals(answer(Reason.TOKEN_INVALID), call("GET", "/whoami", user("USER"), user("USER")));
    verifier.setAvailable(false);
    assertEquals(answer(Reason.SERVICE_UNAVAILABLE), call("GET", "/whoami", user("USER")));
  }

  @Test
  void noSessionKeepsTheCaller() throws Exception {
    String token = user("USER");
    assertEquals("200 ada", call("GET", "/whoami", token));
    assertEquals(answer(Reason.TOKEN_MISSING), call("GET", "/open/not"));
    assertEquals(List.of(), cookies.getCookieStore().getCookies());
    verifier.revokeUser("ada");
    assertEquals(answer(Reason.TOKEN_INVALID), call("GET", "/whoami", token));
  }

  @Test
  void anAsynchronousAnswerAndAnErrorHaveTheCaller() throws Exception {
    assertEquals("200 ada", call("GET", "/later", user("USER")));
    assertEquals("404", call("GET", "/nothing", user("USER")).substring(0, 3));
    assertEquals(answer(Reason.TOKEN_MISSING), call("GET", "/nothing"));
  }

  @Test
  void aCallWithoutATokenIsProtectedFromOtherSites() throws Exception {
    assertEquals("200 open", call("GET", "/open"));
    assertEquals(answer(Reason.FORBIDDEN), call("POST", "/open"));
  }
}
