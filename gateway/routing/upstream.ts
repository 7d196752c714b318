import { buildConnector, type Dispatcher, Pool } from "undici";
import { CircuitBreaker } from "./circuit-breaker.ts";

/** Calls to one upstream at a time. There is no queue behind it. */
const MAX_OPEN_CALLS = 1_024;
const MAX_RESPONSE_HEADERS_BYTES = 16_384;

/** How a call to an upstream ended, as far as it tells something of the upstream. */
export type CallEnd = "answered" | "failed" | "abandoned";

/** One origin behind the gateway: its connections, and whether it is worth asking. */
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

  /** Takes a place for a call, to be given back by `leave`; false if there is none, or while the upstream fails. */
  enter(nowMs: number): boolean {
    if (this.isFull || !this.#breaker.letThrough(nowMs)) return false;
    this.#openCalls += 1;
    return true;
  }

  /** The upstream began to answer: it is well. */
  answered(): void {
    this.#breaker.succeeded();
  }

  /** @param caller whose call it was; undefined if no connection came about, which is nobody's doing. */
  leave(end: CallEnd, caller?: string): void {
    this.#openCalls -= 1;
    if (end === "failed") this.#breaker.failed(performance.now(), caller);
    else if (end === "abandoned") this.#breaker.abandoned();
  }

  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void {
    this.#pool.dispatch(options, handler);
  }

  /** Lets open calls end. */
  close(): Promise<void> {
    return this.#pool.close();
  }
}

/** Errors of a connection say how much had been read from it: undici does so for some of them only. */
function connectorWithin(timeoutMs: number): buildConnector.connector {
  const connect = buildConnector({ timeout: timeoutMs });
  return (options, callback) =>
    connect(options, (...result) => {
      const [, socket] = result;
      // Before undici's own listener, which passes the error on.
      socket?.on("error", (error) => Object.assign(error, { bytesRead: socket.bytesRead }));
      callback(...result);
    });
}
