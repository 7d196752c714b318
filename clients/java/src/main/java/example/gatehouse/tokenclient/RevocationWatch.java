package example.gatehouse.tokenclient;

import gatehouse.token.v1.TokenServiceOuterClass.WatchRevocationsRequest;
import gatehouse.token.v1.TokenServiceOuterClass.WatchRevocationsResponse;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.Context;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/** Keeps the revocations up to date, resuming by sequence after each break. */
final class RevocationWatch {
  /** The longest time between two messages of token-service. */
  private static final long HEARTBEAT_MS = 500;

  /** For a token of an unknown key: a stream that lags as much as it may reports the next read this late. Memory is trusted longer. */
  static final long KEY_WAIT_MS = (long) (Revocations.MAX_MESSAGE_AGE_S * 1e3) + HEARTBEAT_MS;

  private static final int MAX_KEY_WAITS = 5_000;
  private static final long RECONNECT_MIN_MS = 50;
  private static final long RECONNECT_MAX_MS = 1_000;

  private static final long SILENCE_MS = 4 * HEARTBEAT_MS;

  private static final System.Logger LOG = System.getLogger(RevocationWatch.class.getName());

  private record Waiting(double sinceS, CompletableFuture<Void> read) {}

  private final Object lock;
  private final Revocations revocations;
  private final ManagedChannel channel;
  private final ScheduledExecutorService timer;
  private final Clock clock;
  private final ArrayDeque<Waiting> waiting = new ArrayDeque<>();
  private boolean isClosed;
  private long pauseMs = RECONNECT_MIN_MS;
  private Stream current;

  /** When the last message came, by the monotonic clock. Null before the first. */
  private Double messageAtS;

  /** The status of the last break, until a message comes. */
  private Status.Code brokenBy;

  /** @param lock guards the revocations and this watch. */
  RevocationWatch(
      Object lock, Revocations revocations, ManagedChannel channel, ScheduledExecutorService timer, Clock clock) {
    this.lock = lock;
    this.revocations = revocations;
    this.channel = channel;
    this.timer = timer;
    this.clock = clock;
  }

  void open() {
    synchronized (lock) {
      if (isClosed) return;
      // Otherwise gRPC waits for up to two minutes after failures.
      channel.resetConnectBackoff();
      // Not of the call that is being served, if a handler makes the verifier: its end would end the stream.
      Context.ROOT.run(
          () -> {
            current = new Stream(clock.monotonicS());
            ClientCalls.asyncServerStreamingCall(current.call, revocations.nextRequest(), current);
          });
      current.watchSilence();
    }
  }

  void close() {
    synchronized (lock) {
      isClosed = true;
      if (current != null) current.end("closed");
    }
  }

  /** Done after a read that began after this call. Empty without room. The caller holds the lock. */
  Optional<CompletableFuture<Void>> readAgain() {
    double nowS = clock.monotonicS();
    while (!waiting.isEmpty() && waiting.peek().sinceS < nowS - KEY_WAIT_MS / 1e3) waiting.remove();
    if (waiting.size() >= MAX_KEY_WAITS) return Optional.empty();
    Waiting entry = new Waiting(nowS, new CompletableFuture<>());
    waiting.add(entry);
    return Optional.of(entry.read);
  }

  /** Once it has been heard. The caller holds the lock. */
  boolean isSilent() {
    return messageAtS != null && (System.nanoTime() / 1e9) - messageAtS > SILENCE_MS / 1e3;
  }

  /** As a warning only what is new: it goes on once a second at most. */
  private void reportBreak(Throwable error) {
    Status status = Status.fromThrowable(error);
    Status.Code code = status.getCode();
    System.Logger.Level level = code == brokenBy ? System.Logger.Level.DEBUG : System.Logger.Level.WARNING;
    brokenBy = code;
    Throwable cause = error;
    while (cause.getCause() != null) cause = cause.getCause();
    // Without its stack, which is that of gRPC.
    String reason = code + (status.getDescription() == null ? "" : ", " + status.getDescription());
    if (cause != error) reason += ", " + cause.getMessage();
    boolean isRefused = code == Status.Code.PERMISSION_DENIED;
    LOG.log(
        level,
        isRefused ? "token-service refuses this service: add its name to VERIFIERS" : "the revocation stream broke: " + reason);
  }

  private List<Waiting> takeServed() {
    List<Waiting> served = new ArrayList<>();
    while (!waiting.isEmpty() && waiting.peek().sinceS <= revocations.readAtS()) served.add(waiting.remove());
    return served;
  }

  private final class Stream implements StreamObserver<WatchRevocationsResponse> {
    private final ClientCall<WatchRevocationsRequest, WatchRevocationsResponse> call =
        channel.newCall(TokenServiceMethods.WATCH_REVOCATIONS, CallOptions.DEFAULT);
    private final double openedS;
    private Future<?> silence;
    private volatile boolean hasHeard;
    private boolean hasEnded;

    Stream(double openedS) {
      this.openedS = openedS;
    }

    @Override
    public void onNext(WatchRevocationsResponse message) {
      List<Waiting> served;
      synchronized (lock) {
        if (hasEnded) return;
        hasHeard = true;
        messageAtS = System.nanoTime() / 1e9;
        boolean stays = revocations.apply(message, openedS);
        served = takeServed();
        if (stays) {
          pauseMs = RECONNECT_MIN_MS;
          brokenBy = null;
          watchSilence();
        } else {
          reopen("its messages are late");
        }
      }
      served.forEach(entry -> entry.read.complete(null));
    }

    @Override
    public void onError(Throwable error) {
      synchronized (lock) {
        if (!hasEnded) reportBreak(error);
      }
      reopen("broken");
    }

    @Override
    public void onCompleted() {
      reopen("it has ended");
    }

    void watchSilence() {
      if (silence != null) silence.cancel(false);
      silence = timer.schedule(this::leaveSilence, SILENCE_MS, TimeUnit.MILLISECONDS);
    }

    private void leaveSilence() {
      // A connection that was heard may be dead: the next stream gets another. One that is being made may be slow.
      if (hasHeard) channel.enterIdle();
      reopen("silence");
    }

    private void reopen(String why) {
      synchronized (lock) {
        if (hasEnded) return;
        end(why);
        if (isClosed) return;
        double jitter = ThreadLocalRandom.current().nextDouble(0.8, 1.2);
        timer.schedule(RevocationWatch.this::open, (long) (pauseMs * jitter), TimeUnit.MILLISECONDS);
        pauseMs = Math.min(pauseMs * 2, RECONNECT_MAX_MS);
      }
    }

    void end(String why) {
      hasEnded = true;
      if (silence != null) silence.cancel(false);
      call.cancel(why, null);
    }
  }
}
