import { type handleUnaryCall, status } from "@grpc/grpc-js";
import type { Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { type CallSpan, failureOf, startSpan } from "../telemetry/tracing.ts";
import { withCallDeadline, withTurn } from "../values/call-deadline.ts";
import { DomainError } from "../values/errors.ts";
import { type CallContext, traceIdOf } from "./call-context.ts";
import { sessionOf } from "./grpc-js-internals.ts";
import {
  type AdmissionDeps,
  type AdmissionOptions,
  admit,
  assertNotRefused,
  type CallersOfMethod,
  callerOf,
  type RpcContext,
  type StreamCall,
} from "./rpc-admission.ts";
import { toRpcError } from "./rpc-errors.ts";

export interface RpcStreamContext extends RpcContext {
  /** Aborts when the client disconnects or the server drains. */
  signal: AbortSignal;
}

export interface HandlerOptions extends AdmissionOptions {
  logger: Logger;
  /** All unary calls of one user or client hold one database connection at a time. */
  actorsTakeTurns?: boolean;
  /**
   * Fields that hold a secret. Calls without an actor take turns by it, so that nobody can make others wait whose secret they
   * do not know.
   */
  turnFields?: readonly string[];
  /** By the full name of a service: the variable that adds to the callers of its methods. */
  callerSettings?: Readonly<Record<string, string>>;
  /** Endless streams end at a random age. Defaults to 60 to 120 s. */
  streamAgeMs?: { min: number; max: number };
}

export interface HandlerDeps extends HandlerOptions, AdmissionDeps {
  logUnavailable: (facts: object) => void;
  /** Labelled by caller and setting. */
  refusals: ReturnType<Metrics["counter"]>;
  /** Labelled by method and code. */
  duration: ReturnType<Metrics["histogram"]>;
  /** Aborted while the server does not serve. */
  drainSignal: () => AbortSignal;
}

interface Route extends CallersOfMethod {
  path: string;
}

const STREAM_AGE_MS = { min: 60_000, max: 120_000 };

export function unaryHandler(
  deps: HandlerDeps,
  route: Route,
  method: (request: unknown, context: RpcContext) => Promise<unknown>,
): handleUnaryCall<unknown, unknown> {
  const { duration } = deps;
  const { path } = route;
  const ok = duration.labels(path, "OK");
  return (call, callback) => {
    const startedMs = performance.now();
    const elapsedS = () => (performance.now() - startedMs) / 1_000;
    let context: RpcContext | undefined;
    let span: CallSpan | undefined;
    // A plain object, because an `AbortController` costs a twentieth of a short call and nothing listens to it.
    const gone = {
      get aborted() {
        return call.cancelled;
      },
    };
    const onError = (error: unknown) => {
      const encoded = encodeFailure(deps, error, route, { call, context });
      span?.end({}, failureOf(error));
      duration.observe({ method: path, code: nameOf(encoded.code) }, elapsedS());
      callback(encoded);
    };
    try {
      context = admit(deps, call, { ...route, needsDeadline: true });
      span = startSpan("server", path.slice(1), context.traceparent);
      context.traceparent = span.traceparent;
      const received = context;
      const turn = turnOf(deps, call.request, received);
      const work = () => method(call.request, received);
      const serve = turn === undefined ? work : () => withTurn(turn, work);
      withCallDeadline(received.deadlineMs, serve, gone).then((response) => {
        ok.observe(elapsedS());
        span?.end();
        callback(null, response);
      }, onError);
    } catch (error) {
      onError(error);
    }
  };
}

/** Only whom the gateway has authenticated: by any other name a stranger could make a user wait. */
function turnOf(
  { actorsTakeTurns = false, turnFields = [] }: HandlerOptions,
  request: unknown,
  { actor }: CallContext,
): string | undefined {
  if (actor !== undefined) return actorsTakeTurns ? actor.userId : undefined;
  const fields = request as Record<string, unknown>;
  const secret = turnFields.map((name) => fields[name]).find(Boolean);
  return secret === undefined ? undefined : `secret ${secret}`;
}

export function streamingHandler(
  deps: HandlerDeps,
  route: Route & { isEndless: boolean },
  run: (call: StreamCall, context: RpcStreamContext) => AsyncIterable<unknown>,
): (call: StreamCall) => Promise<void> {
  const { min, max } = deps.streamAgeMs ?? STREAM_AGE_MS;
  return async (call) => {
    const gone = new AbortController();
    const old = new AbortController();
    const ageMs = min + Math.random() * (max - min);
    const ageing = route.isEndless ? setTimeout(() => old.abort(), ageMs).unref() : undefined;
    call.once("cancelled", () => gone.abort());
    const draining = deps.drainSignal();
    const signal = AbortSignal.any([gone.signal, draining, old.signal]);
    let context: RpcContext | undefined;
    try {
      if (draining.aborted) {
        // A connection whose handshake was under way when the server stopped got no GOAWAY, and its client would stay.
        sessionOf(call)?.close();
        throw new DomainError("service_unavailable", "The server does not serve now");
      }
      context = admit(deps, call, { ...route, needsDeadline: false });
      const { person } = context;
      await pump(run(call, { ...context, signal }), call, signal, () => assertNotRefused(deps, person));
      call.end();
    } catch (error) {
      if (!gone.signal.aborted) call.emit("error", encodeFailure(deps, error, route, { call, context }));
    } finally {
      clearTimeout(ageing);
    }
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

/** Logs it, too. */
function encodeFailure(
  { logger, logUnavailable, refusals }: HandlerDeps,
  error: unknown,
  { path, setting }: Route,
  { call, context }: { call: Parameters<typeof callerOf>[0]; context: RpcContext | undefined },
) {
  const facts = {
    method: path,
    requestId: context?.requestId,
    traceId: context === undefined ? undefined : traceIdOf(context),
  };
  if (!(error instanceof DomainError)) {
    logger.error({ err: error, ...facts }, "call failed unexpectedly");
  } else if (error.code === "caller_not_allowed") {
    const caller = callerOf(call);
    refusals.inc({ caller: caller ?? "", setting: setting ?? "" });
    logger.warn({ method: path, caller, setting }, "caller refused");
  } else if (error.code === "service_unavailable") {
    logUnavailable({ err: error, ...facts });
  } else {
    logger.debug({ code: error.code, ...facts }, "call failed");
  }
  return toRpcError(error);
}

function nameOf(code: status | undefined): string {
  return status[code ?? status.UNKNOWN] ?? "UNKNOWN";
}
