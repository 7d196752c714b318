package example.gatehouse.tokenclient;

import com.google.gson.Gson;
import com.google.protobuf.Empty;
import com.google.protobuf.StringValue;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.Server;
import io.grpc.ServerInterceptors;
import io.grpc.ServerServiceDefinition;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.ServerCalls;
import jakarta.servlet.DispatcherType;
import jakarta.servlet.FilterRegistration;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.EnumSet;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;

/** A service behind the package, for {@code clients/conformance}. */
final class ConformanceDriver {
  private static final RouteAuth ANYBODY = RouteAuth.AUTHENTICATED.andClientsWith("payments:read");
  private static final RouteAuth ADMIN = RouteAuth.ofRoles("ADMIN");
  private static final RouteAuth FRESH = RouteAuth.AUTHENTICATED.demanding(new AssuranceDemand(1, Duration.ofSeconds(300)));
  private static final String SERVICE = "gatehouse.conformance.v1.ConformanceService";
  private static final AtomicLong WALL_JUMP_MS = new AtomicLong();

  private ConformanceDriver() {}

  public static void main(String[] arguments) throws Exception {
    TokenVerifier verifier = verifier(System.getenv());
    System.out.println(new Gson().toJson(Map.of("http", listenHttp(verifier), "grpc", listenRpc(verifier))));
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      WALL_JUMP_MS.addAndGet(Long.parseLong(line.substring("jump ".length())));
      System.out.println("jumped");
    }
    System.exit(0);
  }

  private static TokenVerifier verifier(Map<String, String> env) throws Exception {
    TlsFiles files =
        new TlsFiles(
            Path.of(env.get("TLS_CERT_FILE")), Path.of(env.get("TLS_KEY_FILE")), Path.of(env.get("TLS_CA_FILE")));
    TokenVerifier.Builder builder = TokenVerifier.builder(env.get("TOKEN_SERVICE_ADDRESS"), files);
    if (env.containsKey("TOKEN_AUDIENCE")) builder.audience(env.get("TOKEN_AUDIENCE"));
    if (env.containsKey("CALL_TIMEOUT_MS"))
      builder.callTimeout(Duration.ofMillis(Long.parseLong(env.get("CALL_TIMEOUT_MS"))));
    return builder.acceptsIssuer("true".equals(env.get("ACCEPTS_ISSUER"))).clock(new JumpingClock()).build();
  }

  /** Java has no other way to move the clock of a process. */
  private static final class JumpingClock implements Clock {
    @Override
    public double monotonicS() {
      return Clock.SYSTEM.monotonicS();
    }

    @Override
    public double wallS() {
      return Clock.SYSTEM.wallS() + WALL_JUMP_MS.get() / 1e3;
    }
  }

  private static String caller(Principal principal) {
    return new Gson()
        .toJson(
            Map.of(
                "kind", principal.isClient() ? "client" : "user",
                "userId", principal.userId(),
                "sessionId", principal.sessionId(),
                "role", principal.role(),
                "clientId", principal.clientId(),
                "scopes", principal.scopes()));
  }

  /** Null: nobody may call the route. */
  private static RouteAuth route(HttpServletRequest request) {
    return Map.of("/whoami", ANYBODY, "/admin", ADMIN, "/fresh", FRESH, "/ready", RouteAuth.PUBLIC).get(request.getPathInfo());
  }

  private static String listenHttp(TokenVerifier verifier) throws Exception {
    TomcatServer server =
        new TomcatServer(
            context -> {
              FilterRegistration.Dynamic filter =
                  context.addFilter("auth", new BearerAuthFilter(verifier, ConformanceDriver::route));
              filter.addMappingForUrlPatterns(EnumSet.allOf(DispatcherType.class), false, "/*");
              context.addServlet("routes", new Routes(verifier)).addMapping("/*");
            });
    return server.url();
  }

  private static final class Routes extends HttpServlet {
    private static final long serialVersionUID = 1;
    private final transient TokenVerifier verifier;

    Routes(TokenVerifier verifier) {
      this.verifier = verifier;
    }

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException, ServletException {
      String path = request.getPathInfo();
      if (path.equals("/ready") && !verifier.isReady())
        throw new ServletException(AuthException.unavailable("token-service is silent"));
      response.setContentType("application/json");
      response.getWriter().write(path.equals("/whoami") ? caller(BearerAuthFilter.principalIn(request)) : "{}");
    }
  }

  private static String listenRpc(TokenVerifier verifier) throws IOException {
    ServerServiceDefinition service =
        ServerServiceDefinition.builder(SERVICE)
            .addMethod(method(MethodType.UNARY, "WhoAmI"), unary(ConformanceDriver::currentCaller))
            .addMethod(method(MethodType.UNARY, "Admin"), unary(() -> "{}"))
            .addMethod(method(MethodType.UNARY, "Unlisted"), unary(() -> "{}"))
            .addMethod(
                method(MethodType.SERVER_STREAMING, "Watch"),
                ServerCalls.asyncServerStreamingCall(
                    (request, observer) -> {
                      observer.onNext(StringValue.of(currentCaller()));
                      observer.onCompleted();
                    }))
            .build();
    Map<String, RouteAuth> methods =
        Map.of(SERVICE + "/WhoAmI", ANYBODY, SERVICE + "/Admin", ADMIN, SERVICE + "/Watch", ANYBODY);
    Server server =
        NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", 0))
            .addService(ServerInterceptors.intercept(service, new BearerAuthInterceptor(verifier, methods)))
            .build()
            .start();
    return "127.0.0.1:" + server.getPort();
  }

  private static String currentCaller() {
    return caller(BearerAuthInterceptor.currentPrincipal());
  }

  private static io.grpc.ServerCallHandler<Empty, StringValue> unary(Supplier<String> answer) {
    return ServerCalls.asyncUnaryCall(
        (request, observer) -> {
          observer.onNext(StringValue.of(answer.get()));
          observer.onCompleted();
        });
  }

  private static MethodDescriptor<Empty, StringValue> method(MethodType type, String name) {
    return MethodDescriptor.newBuilder(
            ProtoUtils.marshaller(Empty.getDefaultInstance()), ProtoUtils.marshaller(StringValue.getDefaultInstance()))
        .setType(type)
        .setFullMethodName(MethodDescriptor.generateFullMethodName(SERVICE, name))
        .build();
  }
}
