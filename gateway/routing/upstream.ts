import { buildConnector, type Dispatcher, Pool } from "undici";
import { CircuitBreaker } from "./circuit-breaker.ts";

/** There is no queue. */
const MAX_OPEN_CALLS = 1_024;
const MAX_RESPONSE_HEADERS_BYTES = 16_384;

export type CallEnd = "answered" | "failed" | "abandoned";

export class Upstream {
  readonly origin: string;
  readonly #pool: Pool;
  readonly #breaker = new CircuitBreaker();
  #openCalls = 0;

  constructor(origin: string, connectTimeoutMs: number) {
    this.origin = origin;
    this.#pool = new Pool(origin, {
      connections: MAX_OPEN_CALLS,
      pipelining: 1,
      maxHeaderSize: MAX_RESPONSE_HEADERS_BYTES,
      connect: connectorWithin(connectTimeoutMs),
    });
  }

  get state(): CircuitBreaker["state"] {
    return this.#breaker.state;
  }

  get isFull(): boolean {
    return this.#openCalls >= MAX_OPEN_CALLS;
  }

  get freePlaces(): number {
    return MAX_OPEN_CALLS - this.#openCalls;
  }

  /** False if full or open. */
  enter(nowMs: number): boolean {
    if (this.isFull || !this.#breaker.letThrough(nowMs)) return false;
    this.#openCalls += 1;
    return true;
  }

  answered(): void {
    this.#breaker.succeeded();
  }

  /** @param caller undefined without a connection: the caller cannot be the cause. */
  leave(end: CallEnd, caller?: string): void {
    this.#openCalls -= 1;
    if (end === "failed") this.#breaker.failed(performance.now(), caller);
    else if (end === "abandoned") this.#breaker.abandoned();
  }

  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void {
    this.#pool.dispatch(options, handler);
  }

  close(): Promise<void> {
    return this.#pool.close();
  }
}

/** Adds `bytesRead` to connection errors, as undici does for some. */
function connectorWithin(timeoutMs: number): buildConnector.connector {
  const connect = buildConnector({ timeout: timeoutMs });
  return (options, callback) =>
    connect(options, (...result) => {
      const [, socket] = result;
      // Runs before undici's listener.
      socket?.on("error", (error) => Object.assign(error, { bytesRead: socket.bytesRead }));
      callback(...result);
    });
}
