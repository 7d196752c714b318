package example.gatehouse.tokenclient;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import example.gatehouse.tokenclient.AuthException.Reason;
import example.gatehouse.tokenclient.testing.TestPrincipal;
import example.gatehouse.tokenclient.testing.TestVerifier;
import jakarta.servlet.AsyncContext;
import jakarta.servlet.DispatcherType;
import jakarta.servlet.FilterRegistration;
import jakarta.servlet.ServletContext;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRegistration;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

final class BearerAuthFilterTest {
  private static final Map<String, RouteAuth> ROUTES =
      Map.of(
          "/whoami", RouteAuth.AUTHENTICATED.andClientsWith("orders:read"),
          "/admin", RouteAuth.ofRoles("ADMIN"),
          "/fresh", RouteAuth.AUTHENTICATED.demanding(new AssuranceDemand(2, Duration.ofMinutes(5))),
          "/to", RouteAuth.AUTHENTICATED,
          "/open", RouteAuth.PUBLIC);

  private final TestVerifier verifier = new TestVerifier();
  private final HttpClient client = HttpClient.newHttpClient();
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
    BearerAuthFilter auth = new BearerAuthFilter(verifier, request -> ROUTES.get(request.getPathInfo()));
    FilterRegistration.Dynamic filter = context.addFilter("auth", auth);
    filter.setAsyncSupported(true);
    filter.addMappingForUrlPatterns(EnumSet.allOf(DispatcherType.class), false, "/*");
    ServletRegistration.Dynamic routes = context.addServlet("routes", new Routes());
    routes.setAsyncSupported(true);
    routes.addMapping("/*");
  }

  /** Says who calls, or does what the query asks for. */
  private final class Routes extends HttpServlet {
    private static final long serialVersionUID = 1;

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException, ServletException {
      boolean isFirst = request.getDispatcherType() == DispatcherType.REQUEST;
      String forward = request.getParameter("forward");
      String async = request.getParameter("async");
      if (isFirst && forward != null) {
        request.getRequestDispatcher(forward).forward(request, response);
      } else if (isFirst && async != null) {
        AsyncContext context = request.startAsync();
        if (request.getParameter("revoke") != null) verifier.revokeUser(request.getRemoteUser());
        context.dispatch(async);
      } else if (request.getParameter("refuse") != null) {
        throw new ServletException(new AuthException(Reason.FORBIDDEN));
      } else {
        String name = Optional.ofNullable(request.getUserPrincipal()).map(java.security.Principal::getName).orElse("nobody");
        List<Object> caller = List.of(name, request.isUserInRole("ADMIN"), String.valueOf(request.getAuthType()));
        response.getWriter().write(caller.toString());
      }
    }
  }

  private HttpResponse<String> send(String method, String path, String... authorization) throws Exception {
    HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(server.url() + path)).timeout(Duration.ofSeconds(60));
    for (String value : authorization) request.header("Authorization", value);
    return client.send(request.method(method, HttpRequest.BodyPublishers.noBody()).build(), BodyHandlers.ofString());
  }

  private String get(String path, String token) throws Exception {
    HttpResponse<String> response = send("GET", path, "Bearer " + token);
    return response.statusCode() + " " + response.body();
  }

  private static String answer(Reason reason) {
    AuthException refusal = new AuthException(reason);
    return refusal.httpStatus() + " " + refusal.httpBody();
  }

  private String user(String role) {
    return verifier.issue(TestPrincipal.user("ada", role));
  }

  @Test
  void theRequestSaysWhoCalls() throws Exception {
    assertEquals("200 [ada, false, Bearer]", get("/whoami", user("USER")));
    assertEquals("200 [ada, true, Bearer]", get("/admin", user("ADMIN")));
    assertEquals("200 [shop, false, Bearer]", get("/whoami", verifier.issue(TestPrincipal.client("shop", "orders:read"))));
    assertEquals("200 [nobody, false, null]", get("/open", user("ADMIN")));
  }

  @Test
  void aRefusalHasItsStatusHeadersAndBody() throws Exception {
    String expired = user("USER");
    verifier.expire(expired);
    assertEquals(answer(Reason.TOKEN_EXPIRED), get("/whoami", expired));
    assertEquals(answer(Reason.FORBIDDEN), get("/admin", user("USER")));
    assertEquals(answer(Reason.FORBIDDEN), get("/unlisted", user("ADMIN")));
    HttpResponse<String> weak = send("GET", "/fresh", "Bearer " + user("USER"));
    String demand = "Bearer error=\"insufficient_user_authentication\", acr_values=\"urn:gatehouse:acr:2\", max_age=300";
    assertEquals(Optional.of(demand), weak.headers().firstValue("WWW-Authenticate"));
    HttpResponse<String> head = send("HEAD", "/whoami");
    assertEquals(List.of(401, ""), List.of(head.statusCode(), head.body()));
    assertEquals(Optional.of("Bearer"), head.headers().firstValue("WWW-Authenticate"));
    verifier.setAvailable(false);
    HttpResponse<String> away = send("GET", "/whoami", "Bearer " + expired);
    assertEquals(503, away.statusCode());
    assertEquals(Optional.of("1"), away.headers().firstValue("Retry-After"));
  }

  @Test
  void severalHeadersAreRefusedAlsoIfOneIsGood() throws Exception {
    String good = "Bearer " + user("ADMIN");
    for (String[] headers : new String[][] {{good, good}, {good, "Basic YTpi"}, {"Basic YTpi", good}})
      assertEquals(answer(Reason.TOKEN_INVALID), "401 " + send("GET", "/admin", headers).body());
  }

  @Test
  void aForwardOrAnAsynchronousDispatchMustBeAllowedItsOwnRoute() throws Exception {
    assertEquals(answer(Reason.FORBIDDEN), get("/to?forward=/admin", user("USER")));
    assertEquals(answer(Reason.FORBIDDEN), get("/to?async=/admin", user("USER")));
    assertEquals("200 [ada, true, Bearer]", get("/to?forward=/admin", user("ADMIN")));
    assertEquals("200 [ada, true, Bearer]", get("/to?async=/admin", user("ADMIN")));
    assertEquals(answer(Reason.TOKEN_MISSING), "401 " + send("GET", "/open?forward=/whoami").body());
    assertEquals(answer(Reason.TOKEN_MISSING), "401 " + send("GET", "/open?async=/whoami").body());
  }

  @Test
  void aLogoutWhileACallRunsRefusesTheNextCall() throws Exception {
    String token = user("ADMIN");
    assertEquals("200 [ada, true, Bearer]", get("/to?async=/admin&revoke", token));
    assertEquals(answer(Reason.TOKEN_INVALID), get("/to", token));
  }

  @Test
  void aPathInAnotherSpellingHasTheSameRule() throws Exception {
    for (String path : List.of("/admin;x=/open", "/%61dmin", "/open/../admin", "//admin"))
      assertEquals(answer(Reason.FORBIDDEN), get(path, user("USER")), path);
  }

  @Test
  void aRefusalByAServletIsAnsweredToo() throws Exception {
    assertEquals(answer(Reason.FORBIDDEN), get("/whoami?refuse", user("USER")));
    assertEquals(answer(Reason.FORBIDDEN), get("/open?refuse", user("USER")));
  }

  @Test
  void aStepUpIsRefusedWithItsDemandAlone() {
    assertThrows(IllegalArgumentException.class, () -> new AuthException(Reason.STEP_UP_REQUIRED));
  }
}
