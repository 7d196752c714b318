import type { FastifyRequest } from "fastify";
import { newCallContext } from "#kit/rpc/call-context.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import { boundedCache } from "#kit/values/bounded-cache.ts";
import { DomainError, type ErrorCode } from "#kit/values/errors.ts";
import { tokenTypeOf } from "#token-client/bearer-token.ts";
import { CallShares } from "#token-client/call-shares.ts";
import type { Backends } from "../backends/backends.ts";
import { clientIp } from "../edge/request/caller.ts";
import type { ProxyRoute } from "../routing/proxy-table.ts";

export interface UpstreamTokensDeps {
  sessions: Pick<Backends["sessions"], "exchangeToken">;
  /** Of signing keys. */
  isKeyBanned: (keyId: string) => boolean;
  /** About 1 KiB for each of its audiences. */
  maxUpstreamTokens: number;
  /** Default 800. */
  exchangeTimeoutMs?: number;
  logger: Logger;
  metrics: Metrics;
}

interface UpstreamToken {
  /** `Bearer …`. */
  authorization: string;
  keyId: string;
  /** Belongs to the original. An API key may be live again with another. */
  sessionId: string;
  /** Milliseconds of `performance.now()`. */
  untilMs: number;
}

const DEFAULT_TIMEOUT_MS = 800;
/** Callers have proven themselves: this bounds what waits for a slow token-service. */
const CALL_SHARES = { maxInFlight: 1_000, maxInFlightPerNetwork: 250, maxRefusals: 1, refusalsPerS: 1 };
/** Kept for one token. */
const MAX_AUDIENCES = 16;
/** The token of an API key is renewed while the key goes on. */
const RENEWAL_MS = 30_000;
/** What the caller may learn of a failed exchange. */
const CLIENT_ERRORS: ReadonlySet<ErrorCode> = new Set([
  "token_invalid",
  "token_expired",
  "too_many_requests",
  "service_unavailable",
]);

/** A token is exchanged at its first call for an audience, and remembered at most as long as it is accepted. */
export class UpstreamTokens {
  readonly #deps: UpstreamTokensDeps;
  readonly #known;
  readonly #asking = new Map<string, Promise<string>>();
  readonly #calls = new CallShares({ ...CALL_SHARES, nowMs: () => performance.now() });
  readonly #count: (result: "exchanged" | "refused" | "failed") => void;

  constructor(deps: UpstreamTokensDeps) {
    this.#deps = deps;
    this.#known = boundedCache<string, Map<string, UpstreamToken>>(deps.maxUpstreamTokens);
    const exchanges = deps.metrics.counter(
      "gatehouse_token_exchanges_total",
      "Exchanges of access tokens and API keys for tokens of one upstream, by result.",
      ["result"],
    );
    this.#count = (result) => exchanges.inc({ result });
    deps.metrics.gauge(
      "gatehouse_upstream_tokens",
      "Access tokens and API keys whose tokens for upstreams are remembered.",
      [],
      (gauge) => gauge.set(this.#known.size),
    );
  }

  /**
   * What the upstream gets as `Authorization`. Null: nothing.
   * @throws {DomainError} `too_many_requests`. The promise rejects with the same, `token_invalid`, `token_expired` or
   * `service_unavailable`: the caller's own token is never the way out.
   */
  authorizationFor(
    request: FastifyRequest,
    { audience, passToken }: Pick<ProxyRoute, "audience" | "passToken">,
  ): string | null | Promise<string> {
    const { access } = request.state;
    if (access === null || !passToken) return null;
    const { accessToken, principal } = access;
    // The proof of a bound token was for the gateway.
    if (audience === undefined) return `${tokenTypeOf(principal.confirmation)} ${accessToken}`;
    const known = this.#known.get(accessToken)?.get(audience);
    if (known?.sessionId === principal.sessionId && this.#isAlive(known)) return known.authorization;
    return this.#askOnce({ token: accessToken, audience, ...principal }, clientIp(request));
  }

  #isAlive({ untilMs, keyId }: UpstreamToken): boolean {
    return performance.now() < untilMs && !this.#deps.isKeyBanned(keyId);
  }

  #askOnce(wanted: Wanted, ip: string): Promise<string> {
    const key = `${wanted.sessionId} ${wanted.audience} ${wanted.token}`;
    const running = this.#asking.get(key);
    if (running !== undefined) return running;
    const place = this.#calls.enter(ip);
    const call = this.#exchange(wanted).finally(() => {
      place.leave();
      this.#asking.delete(key);
    });
    this.#asking.set(key, call);
    return call;
  }

  async #exchange({ token, audience, sessionId, keyId: originalKeyId }: Wanted): Promise<string> {
    const askedMs = performance.now();
    const context = newCallContext({ budgetMs: this.#deps.exchangeTimeoutMs ?? DEFAULT_TIMEOUT_MS });
    try {
      const answer = await this.#deps.sessions.exchangeToken({ token, audience }, context);
      const { accessToken, keyId, expiresInMs } = answer;
      if (accessToken === "" || keyId === "") throw new DomainError("internal_error");
      const untilMs = askedMs + expiresInMs - (originalKeyId === "" ? RENEWAL_MS : 0);
      const authorization = `Bearer ${accessToken}`;
      this.#remember(token, audience, { authorization, keyId, sessionId, untilMs });
      this.#count("exchanged");
      return authorization;
    } catch (error) {
      throw this.#refusal(error, audience);
    }
  }

  #remember(token: string, audience: string, upstreamToken: UpstreamToken): void {
    const ofToken = this.#known.get(token) ?? new Map<string, UpstreamToken>();
    ofToken.delete(audience);
    const [oldest] = ofToken.keys();
    if (oldest !== undefined && ofToken.size >= MAX_AUDIENCES) ofToken.delete(oldest);
    ofToken.set(audience, upstreamToken);
    this.#known.set(token, ofToken);
  }

  #refusal(error: unknown, audience: string): DomainError {
    const code = error instanceof DomainError ? error.code : "internal_error";
    const isRefused = code === "token_invalid" || code === "token_expired";
    this.#count(isRefused ? "refused" : "failed");
    if (error instanceof DomainError && CLIENT_ERRORS.has(code)) return error;
    this.#deps.logger.error({ err: error, audience }, "a token could not be exchanged");
    return new DomainError("service_unavailable", undefined, { cause: error });
  }
}

interface Wanted {
  token: string;
  audience: string;
  sessionId: string;
  /** Empty for an API key. */
  keyId: string;
}
