import type { Metrics } from "#kit/telemetry/metrics.ts";
import type { Limit } from "#rate-limit/gcra.ts";
import type { MethodPolicy, UpstreamRoute } from "#routes-file/routes-file.ts";
import { type LimitScope, limitFrom } from "../limits/bucket.ts";
import type { RequestPolicy } from "./route-policy.ts";
import { Upstream } from "./upstream.ts";

/** Paths without a version mean version 1. */
export const VERSION_PREFIXES = ["", "/v1"] as const;
/** Longer than a call needs to reach its upstream. */
const RETIREMENT_MS = 30_000;
const STATE_VALUES = { closed: 0, "half-open": 1, open: 2 } as const;

export interface ProxyRoute extends UpstreamRoute {
  origins: readonly Upstream[];
  allow: readonly string[];
  allowedOriginSet: ReadonlySet<string>;
  allowedHeaderSet: ReadonlySet<string>;
  allowedResponseHeaderSet: ReadonlySet<string>;
  limitKinds: Readonly<Record<Exclude<LimitScope, "device">, string>>;
  limits: { address: Limit; user: Limit; total: Limit | undefined };
  webSocketKind: string;
  /** Round-robin index. */
  turn: number;
}

export interface ProxyTarget {
  route: ProxyRoute;
  version: string;
  /** By method, for the prefix and for paths below it. */
  exact: ReadonlyMap<string, RequestPolicy>;
  below: ReadonlyMap<string, RequestPolicy>;
}

interface Table {
  longest: number;
  targets: ReadonlyMap<string, ProxyTarget>;
  upstreams: ReadonlyMap<string, Upstream>;
}

/** Replaced as a whole, while requests keep their route. */
export class ProxyTable {
  #table: Table = { longest: 0, targets: new Map(), upstreams: new Map() };
  readonly #retired = new Map<Upstream, NodeJS.Timeout>();

  constructor(routes: readonly UpstreamRoute[], metrics: Metrics) {
    this.replace(routes);
    metrics.gauge(
      "gatehouse_upstream_circuit",
      "Circuit breaker of an upstream: 0 closed, 1 half-open (a trial call is under way), 2 open (no calls).",
      ["upstream"],
      (gauge) => {
        gauge.reset();
        for (const { origin, state } of this.#table.upstreams.values()) {
          gauge.set({ upstream: origin }, STATE_VALUES[state]);
        }
      },
    );
  }

  /** @param path not decoded, because the raw text is forwarded, and without the query. */
  find(path: string): ProxyTarget | undefined {
    const { targets, longest } = this.#table;
    for (let end = path.indexOf("/", 1); end !== -1 && end <= longest; end = path.indexOf("/", end + 1)) {
      const target = targets.get(path.slice(0, end));
      if (target !== undefined) return target;
    }
    return targets.get(path);
  }

  /** Keeps connections to remaining upstreams. */
  replace(routes: readonly UpstreamRoute[]): void {
    const before = this.#table.upstreams;
    const upstreams = new Map<string, Upstream>();
    const upstreamFor = (origin: string, connectTimeoutMs: number) => {
      const key = `${origin} ${connectTimeoutMs}`;
      const upstream = upstreams.get(key) ?? before.get(key) ?? new Upstream(origin, connectTimeoutMs);
      upstreams.set(key, upstream);
      return upstream;
    };
    const targets = new Map(
      routes
        .map((route) => withUpstreams(route, upstreamFor))
        .flatMap((route) => VERSION_PREFIXES.map((version) => entry(route, version))),
    );
    const longest = Math.max(0, ...[...targets.keys()].map(({ length }) => length));
    this.#table = { longest, targets, upstreams };
    for (const [key, upstream] of before) {
      if (!upstreams.has(key)) this.#retire(upstream);
    }
  }

  async close(): Promise<void> {
    for (const timer of this.#retired.values()) clearTimeout(timer);
    const all = [...this.#table.upstreams.values(), ...this.#retired.keys()];
    this.#retired.clear();
    await Promise.all(all.map((upstream) => upstream.close()));
  }

  #retire(upstream: Upstream): void {
    const timer = setTimeout(() => {
      this.#retired.delete(upstream);
      void upstream.close();
    }, RETIREMENT_MS);
    timer.unref();
    this.#retired.set(upstream, timer);
  }
}

/** @param path as of `find`, which has found the target. */
export function policyAt({ route, version, exact, below }: ProxyTarget, path: string, method: string) {
  const isExact = path.length === version.length + route.prefix.length;
  return (isExact ? exact : below).get(method) ?? null;
}

/** The decoded `7` of `/v1/payments/7?x=1`. */
export function pathBelow({ route, version }: ProxyTarget, url: string): string {
  const [path = ""] = url.split("?", 1);
  // The guard refuses broken escapes, but not invalid UTF-8.
  const below = path.slice(version.length + route.prefix.length + 1);
  try {
    return decodeURIComponent(below);
  } catch {
    return below;
  }
}

function withUpstreams(
  route: UpstreamRoute,
  upstreamFor: (origin: string, connectTimeoutMs: number) => Upstream,
): ProxyRoute {
  const methods = Object.keys(route.methods);
  const { perAddress, perUser, total } = route.rateLimit;
  return {
    ...route,
    origins: route.upstreams.map((origin) => upstreamFor(origin, route.connectTimeoutMs)),
    allow: [...methods, ...(methods.includes("GET") ? ["HEAD"] : [])].sort(),
    allowedOriginSet: new Set(route.allowedOrigins),
    allowedHeaderSet: new Set(route.allowRequestHeaders),
    allowedResponseHeaderSet: new Set(route.allowResponseHeaders),
    limitKinds: {
      address: `proxied ${route.prefix} address`,
      user: `proxied ${route.prefix} user`,
      total: `proxied ${route.prefix} total`,
    },
    limits: {
      address: limitFrom(perAddress),
      user: limitFrom(perUser),
      total: total && limitFrom(total),
    },
    webSocketKind: `proxied ${route.prefix} websockets`,
    turn: 0,
  };
}

function entry(route: ProxyRoute, version: string): [string, ProxyTarget] {
  const base = version + route.prefix;
  const target = { route, version, exact: policies(route, base), below: policies(route, `${base}/*`) };
  return [base, target];
}

function policies({ methods }: ProxyRoute, pattern: string): Map<string, RequestPolicy> {
  const byMethod = Object.entries(methods) as [string, MethodPolicy][];
  const all = new Map(byMethod.map(([method, policy]) => [method, { ...policy, pattern }]));
  const reading = all.get("GET");
  if (reading !== undefined) all.set("HEAD", reading);
  return all;
}
