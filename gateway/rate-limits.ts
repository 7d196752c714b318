import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from "fastify";
import { DomainError } from "../service-kit/errors.ts";
import type { Metrics } from "../service-kit/metrics.ts";
import { networkOf } from "../service-kit/network-of.ts";
import type { Bucket, LimitScope, Verdict } from "./bucket.ts";
import type { CallLimiter } from "./call-limiter.ts";
import { clientIp } from "./client-ip.ts";
import type { LimitClasses } from "./limit-class.ts";
import type { ReconciledLimiter } from "./reconciled-limiter.ts";

export interface RateLimitDeps {
  limitClasses: LimitClasses;
  /** For our own routes: exact. */
  callLimiter: CallLimiter;
  /** For what is forwarded: without a wait. */
  proxyLimiter: Pick<ReconciledLimiter, "take" | "size">;
  metrics: Metrics;
}

type Hook = (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction) => void;

/**
 * Two `onRequest` hooks that throw `too_many_requests`, around authentication: the address is counted before a token is
 * looked at, user and total after, so that who may not call cannot use up what everybody shares. On public routes both
 * address and total are counted at once.
 */
export function createRateLimits(deps: RateLimitDeps): { beforeLogin: Hook; afterLogin: Hook } {
  const { metrics, callLimiter, proxyLimiter } = deps;
  const refusals = metrics.counter("gatehouse_rate_limited_total", "Calls refused with 429 by the gateway.", [
    "limit",
    "route",
  ]);
  metrics.gauge("gatehouse_rate_limit_entries", "Rate-limit counters in memory.", ["calls"], (gauge) => {
    gauge.set({ calls: "own" }, callLimiter.size);
    gauge.set({ calls: "proxied" }, proxyLimiter.size);
  });

  function settle(request: FastifyRequest, reply: FastifyReply, verdict: Verdict): void {
    const { refusedBy, waitMs, own } = verdict;
    if (refusedBy !== undefined) {
      refusals.inc({ limit: refusedBy.scope, route: request.policy?.pattern ?? "" });
      // What everybody shares is nobody's to be told of.
      const limit = refusedBy.scope === "total" ? {} : { limit: refusedBy.limit.calls };
      throw new DomainError("too_many_requests", undefined, { retryAfterMs: Math.ceil(waitMs), ...limit });
    }
    if (own === undefined || request.target !== null) return;
    reply.header("ratelimit-limit", own.limit);
    reply.header("ratelimit-remaining", own.remaining);
    reply.header("ratelimit-reset", own.resetS);
  }

  const hook =
    (bucketsOf: (request: FastifyRequest) => Bucket[]): Hook =>
    (request, reply, done) => {
      if (request.policy === null) return done();
      const buckets = bucketsOf(request);
      const answer = (verdict: Verdict) => settle(request, reply, verdict);
      try {
        if (request.target !== null) answer(proxyLimiter.take(buckets));
        else if (request.routeOptions.config.limitClass === "document") {
          if (buckets.length > 0) answer(callLimiter.takeHere(buckets));
        } else if (buckets.length > 0) {
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

  return {
    beforeLogin: hook((request) => {
      const address = bucketOf(request, deps, "address", networkOf(clientIp(request)));
      return isPublic(request) ? [address, bucketOf(request, deps, "total", "")] : [address];
    }),
    afterLogin: hook((request) => {
      if (isPublic(request)) return [];
      const total = bucketOf(request, deps, "total", "");
      const isOfUser = request.target !== null || limitsOf(request, deps).user !== undefined;
      if (request.principal === null || !isOfUser) return [total];
      return [bucketOf(request, deps, "user", request.principal.userId), total];
    }),
  };
}

function isPublic(request: FastifyRequest): boolean {
  return request.policy?.auth === "public";
}

function limitsOf(request: FastifyRequest, { limitClasses }: Pick<RateLimitDeps, "limitClasses">) {
  return limitClasses[request.routeOptions.config.limitClass ?? "document"];
}

function bucketOf(
  request: FastifyRequest,
  deps: Pick<RateLimitDeps, "limitClasses">,
  scope: LimitScope,
  name: string,
): Bucket {
  const { target } = request;
  if (target !== null) {
    const { perAddress, perUser, total } = target.route.rateLimit;
    const limit = scope === "address" ? perAddress : scope === "user" ? perUser : total;
    return { kind: target.route.limitKinds[scope], name, scope, limit };
  }
  const limits = limitsOf(request, deps);
  const limit = (scope === "user" ? limits.user : limits[scope]) ?? limits.total;
  return { kind: `own ${request.routeOptions.config.limitClass} ${scope}`, name, scope, limit };
}
