import {
  type handleBidiStreamingCall,
  type handleServerStreamingCall,
  type handleUnaryCall,
  Server,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type ServerWritableStream,
  type ServiceDefinition,
  type sendUnaryData,
  status,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import type { Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { type CallSpan, failureOf, startSpan } from "../telemetry/tracing.ts";
import { atMost } from "../values/at-most.ts";
import { withCallDeadline, withTurn } from "../values/call-deadline.ts";
import { DomainError } from "../values/errors.ts";
import { type CallContext, traceIdOf } from "./call-context.ts";
import { forgetFailedBinding, hasGone, sessionOf } from "./grpc-js-internals.ts";
import type { RefusedPeople } from "./refused-people.ts";
import { toRpcError } from "./rpc-errors.ts";
import { fromMetadata, type MetadataValues } from "./rpc-metadata.ts";
import { type Peer, type ProcessCertificate, peerOf, serverCredentials } from "./rpc-tls.ts";

export interface RpcContext extends CallContext {
  /** From the certificate: a service, `operator` or `auditor`. */
  caller: string;
}

interface RpcStreamContext extends RpcContext {
  /** Aborts when the client disconnects or the server drains. */
  signal: AbortSignal;
}

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

export interface RpcServerOptions {
  address: string;
  certificate: ProcessCertificate;
  logger: Logger;
  metrics: Metrics;
  /** Their calls are refused, and their streams end with their next answer. */
  refusedPeople?: RefusedPeople;
  /** Before each call. @throws {DomainError} `service_unavailable` while the clock is known to be wrong. */
  assertClock?: (() => void) | undefined;
  /** All unary calls of one user or client hold one database connection at a time. */
  actorsTakeTurns?: boolean;
  /**
   * Fields that hold a secret. Calls without an actor take turns by it, so that nobody can make others wait whose secret they
   * do not know.
   */
  turnFields?: readonly string[];
  maxReceiveBytes?: number;
  /** Endless streams end at a random age. Defaults to 60 to 120 s. */
  streamAgeMs?: { min: number; max: number };
}

export interface RpcServer {
  /** Full names of those that were added. */
  readonly services: ReadonlySet<string>;
  /** @param endless streams that end early, so that clients reach added replicas. */
  add<S>(
    definition: ServiceDefinition<UntypedServiceImplementation>,
    callers: Callers<S>,
    methods: Implementation<S>,
    endless?: readonly MethodName<S>[],
  ): void;
  /** @returns the port. */
  listen(): Promise<number>;
  /** Stopping ends streams, sends GOAWAY and refuses connections. Open calls have 5 s. */
  setServing(isServing: boolean): Promise<void>;
  /** Cuts open calls after `graceMs`. */
  close(graceMs: number): Promise<void>;
}

const DEFAULT_MAX_RECEIVE_BYTES = 64 * 1024;
const MAX_METADATA_BYTES = 8 * 1024;
const MAX_UNARY_MS = 10_000;
const MAX_UNAVAILABLE_LOGGED_PER_S = 10;
/** Limits the use of an old certificate. Streams end within the grace period. */
const CONNECTION_AGE_MS = 10 * 60_000;
const CONNECTION_AGE_GRACE_MS = 150_000;
const STREAM_AGE_MS = { min: 60_000, max: 120_000 };
const NOT_SERVING_GRACE_MS = 5_000;

type StreamCall = ServerWritableStream<unknown, unknown> | ServerDuplexStream<unknown, unknown>;
type AnyCall = ServerUnaryCall<unknown, unknown> | StreamCall;

export function createRpcServer(options: RpcServerOptions): RpcServer {
  const { logger, actorsTakeTurns = false, turnFields = [] } = options;
  const server = new Server({
    "grpc.max_receive_message_length": options.maxReceiveBytes ?? DEFAULT_MAX_RECEIVE_BYTES,
    "grpc.keepalive_time_ms": 30_000,
    "grpc.keepalive_timeout_ms": 10_000,
    "grpc.max_connection_age_ms": CONNECTION_AGE_MS,
    "grpc.max_connection_age_grace_ms": CONNECTION_AGE_GRACE_MS,
    "grpc.max_concurrent_streams": 1_000,
  });
  const logUnavailable = atMost(MAX_UNAVAILABLE_LOGGED_PER_S, 1_000, (facts: object) =>
    logger.warn(facts, "call failed: a dependency is unavailable"),
  );
  const credentials = serverCredentials(options.certificate);
  const streamAge = options.streamAgeMs ?? STREAM_AGE_MS;
  let draining = new AbortController();
  let boundAddress: string | undefined;
  let isServing = true;
  let isClosed = false;
  const duration = options.metrics.histogram("gatehouse_rpc_server_seconds", "Duration of served calls.", [
    "method",
    "code",
  ]);

  function isRefused(person: string | undefined): boolean {
    return person !== undefined && options.refusedPeople?.has(person) === true;
  }

  /** Only whom the gateway has authenticated: by any other name a stranger could make a user wait. */
  function turnOf(request: unknown, { actor }: CallContext): string | undefined {
    if (actor !== undefined) return actorsTakeTurns ? actor.userId : undefined;
    const fields = request as Record<string, unknown>;
    const secret = turnFields.map((name) => fields[name]).find(Boolean);
    return secret === undefined ? undefined : `secret ${secret}`;
  }

  function admit(call: AnyCall, callers: readonly string[], needsDeadline: boolean): RpcContext {
    if (hasGone(call)) throw new DomainError("service_unavailable", "The caller has disconnected");
    const peer = peerOfCall(call);
    if (peer === undefined || !callers.includes(peer.name) || isRefused(peer.person))
      throw new DomainError("caller_not_allowed");
    const values = call.metadata.toJSON();
    if (bytesOf(values) > MAX_METADATA_BYTES) throw new DomainError("headers_too_large");
    const now = Date.now();
    const deadlineMs = Number(call.getDeadline());
    if (needsDeadline && !Number.isFinite(deadlineMs)) throw new DomainError("deadline_missing");
    if (deadlineMs <= now) throw new DomainError("service_unavailable", "The deadline has passed");
    options.assertClock?.();
    const believesCaller = peer.name === AUTHENTICATING_CALLER;
    const context = fromMetadata(values, Math.min(deadlineMs, now + MAX_UNARY_MS), believesCaller);
    return { ...context, caller: peer.name, ...(peer.person !== undefined && { person: peer.person }) };
  }

  function fail(error: unknown, path: string, context: RpcContext | undefined) {
    const call = {
      method: path,
      requestId: context?.requestId,
      traceId: context === undefined ? undefined : traceIdOf(context),
    };
    if (!(error instanceof DomainError)) {
      logger.error({ err: error, ...call }, "call failed unexpectedly");
    } else if (error.code === "caller_not_allowed") {
      logger.warn({ method: path }, "caller refused");
    } else if (error.code === "service_unavailable") {
      logUnavailable({ err: error, ...call });
    } else {
      logger.debug({ code: error.code, ...call }, "call failed");
    }
    return toRpcError(error);
  }

  function unary(
    path: string,
    callers: readonly string[],
    method: (request: unknown, context: RpcContext) => Promise<unknown>,
  ): handleUnaryCall<unknown, unknown> {
    const ok = duration.labels(path, "OK");
    return (call: ServerUnaryCall<unknown, unknown>, callback: sendUnaryData<unknown>) => {
      const startedMs = performance.now();
      let context: RpcContext | undefined;
      let span: CallSpan | undefined;
      const gone = new AbortController();
      call.once("cancelled", () => gone.abort());
      const onError = (error: unknown) => {
        const encoded = fail(error, path, context);
        span?.end({}, failureOf(error));
        duration.observe(
          { method: path, code: nameOf(encoded.code) },
          (performance.now() - startedMs) / 1_000,
        );
        callback(encoded);
      };
      try {
        context = admit(call, callers, true);
        span = startSpan("server", path.slice(1), context.traceparent);
        context.traceparent = span.traceparent;
        const received = context;
        const serve = () => withTurn(turnOf(call.request, received), () => method(call.request, received));
        withCallDeadline(received.deadlineMs, serve, gone.signal).then((response) => {
          ok.observe((performance.now() - startedMs) / 1_000);
          span?.end();
          callback(null, response);
        }, onError);
      } catch (error) {
        onError(error);
      }
    };
  }

  function streaming(
    path: string,
    callers: readonly string[],
    run: (call: StreamCall, context: RpcStreamContext) => AsyncIterable<unknown>,
    isEndless: boolean,
  ): (call: StreamCall) => void {
    return (call) => {
      const gone = new AbortController();
      const old = new AbortController();
      const ageMs = streamAge.min + Math.random() * (streamAge.max - streamAge.min);
      const ageing = isEndless ? setTimeout(() => old.abort(), ageMs).unref() : undefined;
      call.once("cancelled", () => gone.abort());
      const signal = AbortSignal.any([gone.signal, draining.signal, old.signal]);
      const serve = async () => {
        let context: RpcContext | undefined;
        try {
          if (draining.signal.aborted) {
            sendGoAway(call);
            throw new DomainError("service_unavailable", "The server does not serve now");
          }
          context = admit(call, callers, false);
          const { person } = context;
          await pump(run(call, { ...context, signal }), call, signal, () => {
            if (isRefused(person)) throw new DomainError("caller_not_allowed");
          });
          call.end();
        } catch (error) {
          if (!gone.signal.aborted) call.emit("error", fail(error, path, context));
        } finally {
          clearTimeout(ageing);
        }
      };
      void serve();
    };
  }

  function bind(address: string): Promise<number> {
    return new Promise((resolve, reject) => {
      server.bindAsync(address, credentials, (error, port) =>
        error === null ? resolve(port) : reject(error),
      );
    });
  }

  const services = new Set<string>();
  return {
    services,
    add(definition, callers, methods, endless = []) {
      const handlers: UntypedServiceImplementation = {};
      for (const [name, { path, requestStream, responseStream }] of Object.entries(definition)) {
        services.add(path.split("/")[1] ?? "");
        const allowed = (callers as Record<string, readonly string[]>)[name] ?? [];
        const method = (methods as Record<string, (...args: unknown[]) => unknown>)[name];
        if (method === undefined) throw new Error(`${path} has no implementation`);
        handlers[name] = responseStream
          ? (streaming(
              path,
              allowed,
              (call, context) =>
                method(
                  requestStream ? call : (call as ServerWritableStream<unknown, unknown>).request,
                  context,
                ) as AsyncIterable<unknown>,
              (endless as readonly string[]).includes(name),
            ) as UntypedServiceImplementation[string])
          : unary(path, allowed, method as (request: unknown, context: RpcContext) => Promise<unknown>);
      }
      server.addService(definition, handlers);
    },
    async listen() {
      const port = await bind(options.address);
      boundAddress = options.address.replace(/:0$/, `:${port}`);
      return port;
    },
    async setServing(wanted) {
      if (wanted === isServing || isClosed || boundAddress === undefined) return;
      isServing = wanted;
      if (wanted) {
        draining = new AbortController();
        await bind(boundAddress).catch((error: unknown) => {
          isServing = false; // The next readiness check retries.
          forgetFailedBinding(server);
          throw error;
        });
      } else {
        draining.abort();
        server.drain(boundAddress, NOT_SERVING_GRACE_MS);
        server.unbind(boundAddress);
      }
    },
    close: (graceMs) =>
      new Promise((resolve) => {
        isClosed = true;
        draining.abort();
        const cut = setTimeout(() => {
          server.forceShutdown();
          resolve();
        }, graceMs);
        server.tryShutdown(() => {
          clearTimeout(cut);
          resolve();
        });
      }),
  };
}

/** An error destroys the stream with its buffered responses, and its status would never be sent. */
async function pump(
  source: AsyncIterable<unknown>,
  call: StreamCall,
  signal: AbortSignal,
  assertAllowed: () => void,
): Promise<void> {
  for await (const response of source) {
    if (signal.aborted) return;
    assertAllowed();
    await written(call, response, signal);
  }
}

function written(call: StreamCall, response: unknown, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      signal.removeEventListener("abort", done);
      resolve();
    };
    signal.addEventListener("abort", done);
    call.write(response, done);
  });
}

/** Only the gateway authenticates users. */
const AUTHENTICATING_CALLER = "gateway";

/** A connection whose handshake was under way when the server stopped got none, and its client would stay. */
function sendGoAway(call: AnyCall): void {
  sessionOf(call)?.close();
}

/** Decoding a certificate costs as much as the rest of a small call. */
const peerBySession = new WeakMap<object, Peer | undefined>();

/** The peer cannot change under TLS 1.3. */
function peerOfCall(call: AnyCall): Peer | undefined {
  const session = sessionOf(call);
  if (session !== undefined && peerBySession.has(session)) return peerBySession.get(session);
  const certificate = call.getAuthContext().sslPeerCertificate;
  const peer = certificate === undefined ? undefined : peerOf(certificate);
  if (session !== undefined) peerBySession.set(session, peer);
  return peer;
}

function bytesOf(values: MetadataValues): number {
  let bytes = 0;
  for (const key in values) {
    for (const value of values[key] ?? []) bytes += key.length + value.length;
  }
  return bytes;
}

function nameOf(code: status | undefined): string {
  return status[code ?? status.UNKNOWN] ?? "UNKNOWN";
}
