import {
  type handleBidiStreamingCall,
  type handleServerStreamingCall,
  type handleUnaryCall,
  Server,
  type ServerWritableStream,
  type ServiceDefinition,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import { atMost } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { forgetFailedBinding } from "./grpc-js-internals.ts";
import type { RpcContext } from "./rpc-admission.ts";
import {
  type HandlerDeps,
  type HandlerOptions,
  type RpcStreamContext,
  streamingHandler,
  unaryHandler,
} from "./rpc-handlers.ts";
import { type ProcessCertificate, serverCredentials } from "./rpc-tls.ts";

type MethodName<S> = keyof { [M in keyof S as string extends M ? never : M]: true };

export type Implementation<S> = {
  [M in MethodName<S>]: S[M] extends handleUnaryCall<infer Q, infer R>
    ? (request: Q, context: RpcContext) => Promise<R>
    : S[M] extends handleServerStreamingCall<infer Q, infer R>
      ? (request: Q, context: RpcStreamContext) => AsyncIterable<R>
      : S[M] extends handleBidiStreamingCall<infer Q, infer R>
        ? (requests: AsyncIterable<Q>, context: RpcStreamContext) => AsyncIterable<R>
        : never;
};

export type Callers<S> = Record<MethodName<S>, readonly string[]>;

type Unary = (request: unknown, context: RpcContext) => Promise<unknown>;
type Streaming = (request: unknown, context: RpcStreamContext) => AsyncIterable<unknown>;

export interface RpcServerOptions extends HandlerOptions {
  address: string;
  certificate: ProcessCertificate;
  metrics: Metrics;
  maxReceiveBytes?: number;
}

const DEFAULT_MAX_RECEIVE_BYTES = 64 * 1024;
const MAX_UNAVAILABLE_LOGGED_PER_S = 10;
/** Limits the use of an old certificate. Streams end within the grace period. */
const CONNECTION_AGE_MS = 10 * 60_000;
const CONNECTION_AGE_GRACE_MS = 150_000;
const NOT_SERVING_GRACE_MS = 5_000;

type State =
  | { kind: "created" }
  | { kind: "serving"; address: string }
  | { kind: "not_serving"; address: string }
  | { kind: "closed" };

export class RpcServer {
  readonly #options: RpcServerOptions;
  readonly #server: Server;
  readonly #credentials: ReturnType<typeof serverCredentials>;
  readonly #handlerDeps: HandlerDeps;
  readonly #services = new Set<string>();
  #state: State = { kind: "created" };
  #draining = new AbortController();

  constructor(options: RpcServerOptions) {
    const { certificate, logger, metrics, maxReceiveBytes = DEFAULT_MAX_RECEIVE_BYTES } = options;
    this.#options = options;
    this.#server = new Server({
      "grpc.max_receive_message_length": maxReceiveBytes,
      "grpc.keepalive_time_ms": 30_000,
      "grpc.keepalive_timeout_ms": 10_000,
      "grpc.max_connection_age_ms": CONNECTION_AGE_MS,
      "grpc.max_connection_age_grace_ms": CONNECTION_AGE_GRACE_MS,
      "grpc.max_concurrent_streams": 1_000,
    });
    this.#credentials = serverCredentials(certificate);
    this.#handlerDeps = {
      ...options,
      logUnavailable: atMost(MAX_UNAVAILABLE_LOGGED_PER_S, 1_000, (facts: object) =>
        logger.warn(facts, "call failed: a dependency is unavailable"),
      ),
      refusals: metrics.counter(
        "gatehouse_rpc_callers_refused_total",
        "Calls of a caller that may not make them.",
        ["caller", "setting"],
      ),
      duration: metrics.histogram("gatehouse_rpc_server_seconds", "Duration of served calls.", [
        "method",
        "code",
      ]),
      nowMs: () => Date.now(),
      drainSignal: () => this.#draining.signal,
    };
  }

  /** Full names of those that were added. */
  get services(): ReadonlySet<string> {
    return this.#services;
  }

  /** @param endless streams that end early, so that clients reach added replicas. */
  add<S>(
    definition: ServiceDefinition<UntypedServiceImplementation>,
    callers: Callers<S>,
    methods: Implementation<S>,
    endless: readonly MethodName<S>[] = [],
  ): void {
    const handlers: UntypedServiceImplementation = {};
    for (const [name, { path, requestStream, responseStream }] of Object.entries(definition)) {
      const service = path.split("/")[1] ?? "";
      this.#services.add(service);
      const allowed = (callers as Record<string, readonly string[]>)[name] ?? [];
      const method = (methods as Record<string, Unary | Streaming>)[name];
      if (method === undefined) throw new Error(`${path} has no implementation`);
      const route = {
        path,
        callers: allowed,
        setting: this.#options.callerSettings?.[service],
        isEndless: (endless as readonly string[]).includes(name),
      };
      handlers[name] = responseStream
        ? (streamingHandler(this.#handlerDeps, route, (call, context) =>
            (method as Streaming)(
              requestStream ? call : (call as ServerWritableStream<unknown, unknown>).request,
              context,
            ),
          ) as UntypedServiceImplementation[string])
        : unaryHandler(this.#handlerDeps, route, method as Unary);
    }
    this.#server.addService(definition, handlers);
  }

  /** @returns the port. */
  async listen(): Promise<number> {
    const port = await this.#bind(this.#options.address);
    const address = this.#options.address.replace(/:0$/, `:${port}`);
    if (this.#state.kind === "created") this.#state = { kind: "serving", address };
    return port;
  }

  /** Stopping ends streams, sends GOAWAY and refuses connections. Open calls have 5 s. */
  async setServing(isServing: boolean): Promise<void> {
    const state = this.#state;
    if (isServing && state.kind === "not_serving") await this.#serveAgain(state.address);
    if (!isServing && state.kind === "serving") this.#stopServing(state.address);
  }

  /** Cuts open calls after `graceMs`. */
  close(graceMs: number): Promise<void> {
    this.#state = { kind: "closed" };
    this.#draining.abort();
    return new Promise((resolve) => {
      const cut = setTimeout(() => {
        this.#server.forceShutdown();
        resolve();
      }, graceMs);
      this.#server.tryShutdown(() => {
        clearTimeout(cut);
        resolve();
      });
    });
  }

  async #serveAgain(address: string): Promise<void> {
    this.#state = { kind: "serving", address };
    this.#draining = new AbortController();
    try {
      await this.#bind(address);
    } catch (error) {
      // The next readiness check retries.
      if (this.#state.kind === "serving") this.#state = { kind: "not_serving", address };
      forgetFailedBinding(this.#server);
      throw error;
    }
  }

  #stopServing(address: string): void {
    this.#state = { kind: "not_serving", address };
    this.#draining.abort();
    this.#server.drain(address, NOT_SERVING_GRACE_MS);
    this.#server.unbind(address);
  }

  #bind(address: string): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.bindAsync(address, this.#credentials, (error, port) =>
        error === null ? resolve(port) : reject(error),
      );
    });
  }
}
