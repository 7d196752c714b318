import type { FastifyRequest } from "fastify";
import { DomainError } from "../../service-kit/errors.ts";
import type { Logger } from "../../service-kit/logger.ts";
import type { Metrics } from "../../service-kit/metrics.ts";
import { type Network, networksOf } from "../../service-kit/network-of.ts";
import type { TokenVerifier, Verification } from "../../token-client/principal.ts";
import { clientIp } from "../edge/caller.ts";
import { type Share, ShareCounts } from "../limits/share-counts.ts";

const SWEEP_MS = 1_000;
/** Clients renew their token while calls are under way: one that waits for its answer may outlive its token this long. */
const MAY_OUTLIVE_TOKEN_MS = 10_000;
/**
 * Tokens that token-service is asked about at the same time, while the stream of revocations is away. Half of what a
 * verifier asks at once: the other half is for new calls.
 */
const MAX_ASKED_AT_ONCE = 500;

/** A call or a WebSocket between a client and an upstream. */
export interface OpenExchange {
  /** Empty on public routes: there is nothing to check again. */
  readonly accessToken: string;
  /** When its request began, by `performance.now()`. */
  readonly startedMs: number;
  /** Whether the upstream has not begun to answer. */
  readonly isWaiting: boolean;
  /** Whether the client's connection has ended. Node does not tell a response that waits for an earlier one of it. */
  readonly isGone: boolean;
  /** The client has gone. */
  abandon(): void;
  /** Answers with the error, or breaks off the answer that has begun. */
  fail(error: DomainError): void;
}

export interface OpenExchangesOptions {
  verifier: Pick<TokenVerifier, "verify">;
  logger: Logger;
  metrics: Metrics;
}

/** The user who calls; the networks of the client's address where nobody is known. */
export function callersOf(request: FastifyRequest): readonly Network[] {
  const { principal } = request;
  return principal === null ? networksOf(clientIp(request)) : [{ name: principal.userId, times: 1 }];
}

/**
 * Everything that is open between clients and upstreams. Once a second each access token is verified again, from
 * memory like that of any call: what was revoked, has expired or cannot be known ends. And no caller has more than its
 * share open.
 */
export class OpenExchanges {
  readonly #verifier: Pick<TokenVerifier, "verify">;
  readonly #logger: Logger;
  /** With the function that releases its place. */
  readonly #open = new Map<OpenExchange, () => void>();
  /**
   * Exchanges that were failed and are not closed yet, with the reason. Each sweep fails them again: an answer that was
   * complete at the first time, but not yet taken by its client, is only broken off by the next.
   */
  readonly #ended = new WeakMap<OpenExchange, DomainError>();
  readonly #shares = new ShareCounts();
  readonly #timer: NodeJS.Timeout;
  readonly #countEnd: (code: string) => void;
  #isSweeping = false;

  constructor({ verifier, logger, metrics }: OpenExchangesOptions) {
    this.#verifier = verifier;
    this.#logger = logger;
    this.#timer = setInterval(() => void this.#sweep(), SWEEP_MS);
    this.#timer.unref();
    const ends = metrics.counter(
      "gatehouse_exchanges_ended_total",
      "Forwarded calls and WebSockets ended because their token was no longer good, or could not be verified.",
      ["code"],
    );
    this.#countEnd = (code) => ends.inc({ code });
    metrics.gauge("gatehouse_open_exchanges", "Open forwarded calls and WebSockets.", [], (gauge) =>
      gauge.set(this.#open.size),
    );
  }

  /**
   * Takes one of the caller's places. `leave` releases it.
   *
   * @throws {DomainError} `too_many_requests`.
   */
  enter(exchange: OpenExchange, share: Share): void {
    this.#open.set(exchange, this.#shares.enter(share));
  }

  /** Gives the place back. May be called again. */
  leave(exchange: OpenExchange): void {
    this.#open.get(exchange)?.();
    this.#open.delete(exchange);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /**
   * Sweeps do not overlap. Never rejects: an exchange that throws is tried again by the next sweep, and a sweep logs all its
   * failures in one line.
   */
  async #sweep(): Promise<void> {
    if (this.#isSweeping) return;
    this.#isSweeping = true;
    const asked = new Set<Promise<void>>();
    const failures: unknown[] = [];
    for (const exchange of [...this.#open.keys()]) {
      try {
        this.#look(exchange, asked, failures);
      } catch (error) {
        failures.push(error);
      }
      if (asked.size >= MAX_ASKED_AT_ONCE) await Promise.race(asked);
    }
    await Promise.all(asked);
    this.#isSweeping = false;
    if (failures.length > 0) {
      this.#logger.error(
        { err: failures[0], exchanges: failures.length },
        "open exchanges could not be ended; trying again",
      );
    }
  }

  #look(exchange: OpenExchange, asked: Set<Promise<void>>, failures: unknown[]): void {
    const ending = this.#ended.get(exchange);
    if (exchange.isGone) exchange.abandon();
    else if (ending !== undefined) exchange.fail(ending);
    else if (exchange.accessToken !== "") this.#check(exchange, asked, failures);
  }

  /** A verification that needs token-service is added to `asked` until it settles. It never rejects. */
  #check(exchange: OpenExchange, asked: Set<Promise<void>>, failures: unknown[]): void {
    const verdict = this.#verify(exchange.accessToken);
    if (!(verdict instanceof Promise)) {
      this.#settle(exchange, verdict);
      return;
    }
    const answered: Promise<void> = verdict
      .then((known) => this.#settle(exchange, known))
      .catch((error: unknown) => void failures.push(error))
      .finally(() => asked.delete(answered));
    asked.add(answered);
  }

  /** What cannot be known is not allowed, here as everywhere. */
  #verify(accessToken: string): Verification | DomainError | Promise<Verification | DomainError> {
    const unknown = (cause: unknown) => new DomainError("service_unavailable", undefined, { cause });
    try {
      const verdict = this.#verifier.verify(accessToken);
      return verdict instanceof Promise ? verdict.catch(unknown) : verdict;
    } catch (error) {
      return unknown(error);
    }
  }

  #settle(exchange: OpenExchange, verdict: Verification | DomainError): void {
    if (verdict instanceof DomainError) {
      this.#end(exchange, verdict);
      return;
    }
    if (verdict.kind === "active") return;
    const isExpired = verdict.reason === "expired";
    const ageMs = performance.now() - exchange.startedMs;
    if (isExpired && exchange.isWaiting && ageMs < MAY_OUTLIVE_TOKEN_MS) return;
    this.#end(exchange, new DomainError(isExpired ? "token_expired" : "token_invalid"));
  }

  #end(exchange: OpenExchange, error: DomainError): void {
    // It may have ended while its token was asked for.
    if (!this.#open.has(exchange)) return;
    this.#ended.set(exchange, error);
    this.#countEnd(error.code);
    exchange.fail(error);
  }
}
