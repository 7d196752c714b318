import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from "fastify";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import { type Network, networkOf, networksOf } from "#kit/values/network-of.ts";
import { type Limit, limitTimes } from "#rate-limit/gcra.ts";
import { callerIdOf } from "#token-client/principal.ts";
import { type Bucket, type LimitScope, limitFrom, type Verdict } from "../limits/bucket.ts";
import type { CallLimiter } from "../limits/call-limiter.ts";
import type { LetInDevice } from "../limits/known-callers.ts";
import type { LimitClass, LimitClasses } from "../limits/limit-class.ts";
import type { ReconciledLimiter } from "../limits/reconciled-limiter.ts";
import { ShareCounts, type StrangerPlaces } from "../limits/share-counts.ts";
import { clientIp } from "./request/caller.ts";
import { deviceKeyOf, deviceTokenOf } from "./request/device-cookie.ts";
import { writableState } from "./request/request-state.ts";

export interface RateLimitDeps {
  limitClasses: LimitClasses;
  callLimiter: CallLimiter;
  proxyLimiter: Pick<ReconciledLimiter, "take" | "size">;
  strangerPlaces: StrangerPlaces;
  metrics: Metrics;
}

type SharedScope = Exclude<LimitScope, "device">;

type Hook = (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction) => void;

/** The share of a network's limit that may run concurrently, for example pipelined. */
const AT_ONCE = 0.5;

/** Totals of public routes count unknown callers only: refused clients must not use up the capacity of others. */
export class RateLimits {
  readonly #deps: RateLimitDeps;
  readonly #refusals: ReturnType<Metrics["counter"]>;
  readonly #underWay = new ShareCounts();
  readonly beforeAuthentication = this.#hook(bucketsBeforeAuthentication);
  readonly afterAuthentication = this.#hook(bucketsAfterAuthentication);

  constructor(deps: RateLimitDeps) {
    this.#deps = deps;
    const { metrics, callLimiter, proxyLimiter } = deps;
    this.#refusals = metrics.counter(
      "gatehouse_rate_limited_total",
      "Calls refused by the gateway with 429, or 503 for lack of a stranger's place.",
      ["limit", "route"],
    );
    metrics.gauge("gatehouse_rate_limit_entries", "Rate-limit counters in memory.", ["calls"], (gauge) => {
      gauge.set({ calls: "own" }, callLimiter.size);
      gauge.set({ calls: "proxied" }, proxyLimiter.size);
    });
  }

  /** Limits a network's concurrent calls. */
  readonly enter: Hook = (request, _reply, done) => {
    const isOpenToAll = isPublic(request) || request.state.policy?.orTokenInBody !== undefined;
    const limit =
      isOpenToAll && request.state.target === null ? limitOf(request, this.#deps, "address") : undefined;
    if (limit === undefined) return done();
    const kind = kindOf(request, "address");
    const max = Math.max(Math.floor(limit.burst * AT_ONCE), 1);
    try {
      const callers = networksOf(clientIp(request));
      writableState(request).leave = this.#underWay.enter({ kind, callers, max });
    } catch (error) {
      this.#count("open", request);
      return done(error as Error);
    }
    done();
  };

  /** Limits the concurrent logins of strangers. After the body: a slow one must hold no place. */
  readonly beforeWork: Hook = (request, _reply, done) => {
    if (!request.state.isStranger || limitClassOfRequest(request) !== "login") return done();
    try {
      writableState(request).place = this.#deps.strangerPlaces.enter(networksOf(clientIp(request)));
    } catch (error) {
      this.#count("strangers", request);
      return done(error as Error);
    }
    done();
  };

  /** @returns the guard's error, or `too_many_requests`. */
  refusedByGuard(request: FastifyRequest, error: Error): Error {
    const { refusedBy, waitMs } = this.#deps.callLimiter.takeHere(unknownBuckets(request, this.#deps));
    if (refusedBy === undefined) return error;
    this.#refusals.inc({ limit: refusedBy.scope, route: "(none)" });
    return new DomainError("too_many_requests", undefined, { retryAfterMs: Math.ceil(waitMs) });
  }

  noteAnswer(request: FastifyRequest, reply: FastifyReply): void {
    const state = writableState(request);
    state.leave?.();
    state.leave = null;
    state.place?.leave(state.errorCode === "busy");
    state.place = null;
    if (state.target !== null || reply.statusCode >= 400) return;
    // A valid token, or a session that began or continues.
    if (state.access === null && state.proof?.actor.sessionId === undefined) return;
    void this.#deps.callLimiter.remember({
      network: networkOf(clientIp(request)),
      device: deviceOf(request),
    });
  }

  #hook(bucketsOf: (request: FastifyRequest, deps: RateLimitDeps) => Bucket[]): Hook {
    return (request, reply, done) => {
      const { callLimiter, proxyLimiter } = this.#deps;
      const buckets = bucketsOf(request, this.#deps);
      const answer = (verdict: Verdict) => this.#settle(request, reply, verdict);
      try {
        if (request.state.target !== null) answer(proxyLimiter.take(buckets));
        else if (COUNTED_HERE.has(limitClassOfRequest(request))) answer(callLimiter.takeHere(buckets));
        else if (buckets.length > 0) {
          callLimiter
            .take(buckets)
            .then(answer)
            .then(() => done(), done);
          return;
        }
      } catch (error) {
        done(error as Error);
        return;
      }
      done();
    };
  }

  #settle(request: FastifyRequest, reply: FastifyReply, verdict: Verdict): void {
    const { refusedBy, waitMs, own, isStranger = false } = verdict;
    if (refusedBy !== undefined) {
      this.#count(refusedBy.scope, request);
      // Do not reveal the global limit.
      const limit = refusedBy.scope === "total" ? {} : { limit: refusedBy.limit.burst };
      throw new DomainError("too_many_requests", undefined, { retryAfterMs: Math.ceil(waitMs), ...limit });
    }
    if (isStranger) writableState(request).isStranger = true;
    if (own === undefined || request.state.target !== null || request.state.policy === null) return;
    reply.header("ratelimit-limit", own.limit);
    reply.header("ratelimit-remaining", own.remaining);
    reply.header("ratelimit-reset", own.resetS);
  }

  #count(limit: string, { state }: FastifyRequest): void {
    this.#refusals.inc({ limit, route: state.policy?.pattern ?? "(none)" });
  }
}

const COUNTED_HERE: ReadonlySet<LimitClass> = new Set(["document", "page", "unknown"]);

function bucketsBeforeAuthentication(request: FastifyRequest, deps: RateLimitDeps): Bucket[] {
  const networks = networksOf(clientIp(request));
  const limit = limitOf(request, deps, "address");
  const buckets = limit === undefined ? [] : networks.map((network) => ofNetwork(request, network, limit));
  const total = isPublic(request) ? limitOf(request, deps, "total") : undefined;
  if (total === undefined) return buckets;
  const [{ name: exemptNetwork }] = networks;
  const shared: Bucket = { ...totalBucket(request, total), exemptNetwork };
  const reserve = request.state.target === null ? deviceBucket(request, deps) : undefined;
  if (reserve !== undefined) buckets.push(reserve);
  // Forwarded calls do not wait for Redis.
  if (request.state.target === null || !deps.callLimiter.isKnown(exemptNetwork)) buckets.push(shared);
  return buckets;
}

function deviceBucket(request: FastifyRequest, { limitClasses }: RateLimitDeps): Bucket | undefined {
  const limitClass = limitClassOfRequest(request);
  const { device: limit } = limitClasses[limitClass];
  const name = deviceKeyOf(deviceTokenOf(request));
  if (limit === undefined || name === undefined) return undefined;
  return { kind: `own ${limitClass} device`, name, scope: "device", limit: limitFrom(limit) };
}

function deviceOf(request: FastifyRequest): LetInDevice | undefined {
  const { proof } = request.state;
  const issued = proof?.deviceToken ?? null;
  const key = deviceKeyOf(issued ?? deviceTokenOf(request));
  if (key === undefined) return undefined;
  return issued === null ? { key } : { key, userId: proof?.actor.userId };
}

function bucketsAfterAuthentication(request: FastifyRequest, deps: RateLimitDeps): Bucket[] {
  const { access, target } = request.state;
  if (access === null) return [];
  const buckets: Bucket[] = [];
  const user = limitOf(request, deps, "user");
  if (user !== undefined) {
    buckets.push({
      kind: kindOf(request, "user"),
      name: callerIdOf(access.principal),
      scope: "user",
      limit: user,
    });
  }
  const total = target?.route.limits.total;
  if (total !== undefined) buckets.push(totalBucket(request, total));
  return buckets;
}

function totalBucket(request: FastifyRequest, limit: Limit): Bucket {
  return { kind: kindOf(request, "total"), name: "", scope: "total", limit };
}

function unknownBuckets(request: FastifyRequest, { limitClasses }: RateLimitDeps): Bucket[] {
  const limit = limitFrom(limitClasses.unknown.address);
  return networksOf(clientIp(request)).map(({ name, times }) => ({
    kind: "own unknown address",
    name,
    scope: "address",
    limit: limitTimes(limit, times),
  }));
}

function isPublic(request: FastifyRequest): boolean {
  return request.state.policy?.auth === "public";
}

function limitClassOfRequest(request: FastifyRequest): LimitClass {
  return request.state.policy === null ? "unknown" : (request.routeOptions.config.limitClass ?? "document");
}

function limitOf(request: FastifyRequest, deps: RateLimitDeps, scope: SharedScope): Limit | undefined {
  const { target } = request.state;
  if (target !== null) return target.route.limits[scope];
  const limit = deps.limitClasses[limitClassOfRequest(request)][scope];
  return limit && limitFrom(limit);
}

function kindOf(request: FastifyRequest, scope: SharedScope): string {
  const { target } = request.state;
  return target === null ? `own ${limitClassOfRequest(request)} ${scope}` : target.route.limitKinds[scope];
}

function ofNetwork(request: FastifyRequest, { name, times }: Network, limit: Limit): Bucket {
  return { kind: kindOf(request, "address"), name, scope: "address", limit: limitTimes(limit, times) };
}
