package example.gatehouse.tokenclient;

import example.gatehouse.tokenclient.AuthException.Reason;
import io.grpc.Context;
import io.grpc.Contexts;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCall.Listener;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.stream.StreamSupport;

/** Asks for an access token in the {@code authorization} metadata. A call of token-service blocks no thread. */
public final class BearerAuthInterceptor implements ServerInterceptor {
  private static final Context.Key<Principal> PRINCIPAL = Context.key("gatehouse-principal");
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  private static final System.Logger LOG = System.getLogger(BearerAuthInterceptor.class.getName());

  private final TokenVerifier verifier;
  private final Map<String, RouteAuth> methods;

  /** @param methods by full name: {@code orders.v1.OrderService/ListOrders}. Other methods are refused. */
  public BearerAuthInterceptor(TokenVerifier verifier, Map<String, RouteAuth> methods) {
    this.verifier = verifier;
    this.methods = Map.copyOf(methods);
  }

  /**
   * The caller, in a handler.
   *
   * @throws IllegalStateException in public methods
   */
  public static Principal currentPrincipal() {
    Principal principal = PRINCIPAL.get();
    if (principal == null) throw new IllegalStateException("this method is public and has no principal");
    return principal;
  }

  @Override
  public <Q, R> Listener<Q> interceptCall(ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
    RouteAuth auth = methods.get(call.getMethodDescriptor().getFullMethodName());
    // A principal that an outer interceptor has set is not this call's.
    Context context = Context.current().withValue(PRINCIPAL, null);
    if (auth == RouteAuth.PUBLIC) return Contexts.interceptCall(context, call, headers, next);
    DelayedListener<Q> listener = new DelayedListener<>();
    admit(headers, auth)
        .whenComplete(
            (principal, failure) -> {
              if (failure != null) {
                refuse(call, failure);
                listener.start(() -> new Listener<>() {});
              } else {
                Context of = context.withValue(PRINCIPAL, principal);
                begin(call, listener, () -> Contexts.interceptCall(of, call, headers, next));
              }
            });
    return listener;
  }

  /** Here nobody but this would see an exception of the handler, or of an interceptor before it, and the call would have no end. */
  private static <Q> void begin(ServerCall<Q, ?> call, DelayedListener<Q> listener, Supplier<Listener<Q>> handler) {
    try {
      listener.start(handler);
    } catch (RuntimeException | Error failure) {
      LOG.log(System.Logger.Level.ERROR, "a call cannot begin", failure);
      listener.start(() -> new Listener<>() {});
      Metadata trailers = Status.trailersFromThrowable(failure);
      try {
        call.close(Status.fromThrowable(failure), trailers == null ? new Metadata() : trailers);
      } catch (IllegalStateException isClosed) {
        LOG.log(System.Logger.Level.DEBUG, "the call has ended already", isClosed);
      }
    }
  }

  private CompletableFuture<Principal> admit(Metadata headers, RouteAuth auth) {
    Iterable<String> values = headers.getAll(AUTHORIZATION);
    List<String> authorization =
        values == null ? List.of() : StreamSupport.stream(values.spliterator(), false).toList();
    try {
      return verifier.verifyAsync(BearerToken.of(authorization)).thenApply(principal -> allowed(principal, auth));
    } catch (AuthException refusal) {
      return CompletableFuture.failedFuture(refusal);
    }
  }

  private Principal allowed(Principal principal, RouteAuth auth) {
    try {
      if (auth == null) throw new AuthException(Reason.FORBIDDEN);
      auth.check(principal, verifier.now());
      return principal;
    } catch (AuthException refusal) {
      throw new CompletionException(refusal);
    }
  }

  private static void refuse(ServerCall<?, ?> call, Throwable failure) {
    Throwable cause = failure instanceof CompletionException ? failure.getCause() : failure;
    if (cause instanceof AuthException refusal) {
      StatusRuntimeException status = refusal.toStatusException();
      call.close(status.getStatus(), status.getTrailers());
    } else {
      call.close(Status.INTERNAL.withCause(cause), new Metadata());
    }
  }

  /** Keeps what happens to a call until its handler has begun. Messages come only after a handler has asked for them. */
  private static final class DelayedListener<Q> extends Listener<Q> {
    private final Queue<Consumer<Listener<Q>>> events = new ArrayDeque<>();
    private Listener<Q> listener;

    synchronized void start(Supplier<Listener<Q>> handler) {
      listener = handler.get();
      while (!events.isEmpty()) events.remove().accept(listener);
    }

    private void pass(Consumer<Listener<Q>> event) {
      synchronized (this) {
        if (listener == null) {
          events.add(event);
          return;
        }
      }
      event.accept(listener);
    }

    @Override
    public void onMessage(Q message) {
      pass(to -> to.onMessage(message));
    }

    @Override
    public void onHalfClose() {
      pass(Listener::onHalfClose);
    }

    @Override
    public void onCancel() {
      pass(Listener::onCancel);
    }

    @Override
    public void onComplete() {
      pass(Listener::onComplete);
    }

    @Override
    public void onReady() {
      pass(Listener::onReady);
    }
  }
}
