import type { FastifyRequest } from "fastify";
import type { AccessRules } from "#access-file/access-rules.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import { type Network, networksOf } from "#kit/values/network-of.ts";
import { callerIdOf, type TokenVerifier, type Verification } from "#token-client/principal.ts";
import { assertMayCall } from "../edge/authorize.ts";
import { clientIp } from "../edge/request/caller.ts";
import { type Share, ShareCounts } from "../limits/share-counts.ts";
import type { RequestPolicy } from "../routing/route-policy.ts";

const SWEEP_MS = 1_000;
/** For waiting calls, because clients renew tokens during calls. */
const MAY_OUTLIVE_TOKEN_MS = 10_000;
/** Half of a verifier's concurrent requests. The other half is for new calls. */
const MAX_ASKED_AT_ONCE = 500;

/** What the call is allowed by. */
export interface ExchangeCall {
  /** Empty on public routes. */
  readonly accessToken: string;
  readonly policy: Pick<RequestPolicy, "auth" | "permissions">;
  /** Milliseconds of `performance.now()`. */
  readonly startedMs: number;
}

export interface OpenExchange {
  readonly call: ExchangeCall;
  /** The upstream has not begun to answer. */
  readonly isWaiting: boolean;
  /** Polled, because Node does not notify a response that waits for an earlier one. */
  readonly isGone: boolean;
  /** Whether the routes file has taken its route away, or given it to others. Absent for what ends by itself. */
  readonly isOffRoute?: boolean;
  /** Kept by `OpenExchanges`. */
  place?: ExchangePlace | undefined;
  abandon(): void;
  fail(error: DomainError): void;
}

export interface ExchangePlace {
  readonly exchange: OpenExchange;
  readonly leaveShare: () => void;
  index: number;
}

export interface OpenExchangesOptions {
  verifier: Pick<TokenVerifier, "verify">;
  access: Pick<AccessRules, "holds" | "isDefined">;
  logger: Logger;
  metrics: Metrics;
}

export function callersOf(request: FastifyRequest): readonly Network[] {
  const { access } = request.state;
  return access === null ? networksOf(clientIp(request)) : [{ name: callerIdOf(access.principal), times: 1 }];
}

export function exchangeCallOf({ state }: FastifyRequest): ExchangeCall {
  const { access, policy, startedMs } = state;
  return { accessToken: access?.accessToken ?? "", policy: policy ?? { auth: { roles: [] } }, startedMs };
}

/**
 * Verifies tokens every second. An exchange ends when its token is revoked, expired or unverifiable, or when the access
 * file does not allow it any more; a WebSocket also with its route.
 */
export class OpenExchanges {
  readonly #verifier: Pick<TokenVerifier, "verify">;
  readonly #access: OpenExchangesOptions["access"];
  readonly #logger: Logger;
  /**
   * No `Map`: one that each call enters and leaves is copied every few hundred calls, and each copy is kept by the one before
   * until all of memory is collected, with the calls in it. They outlived the young generation, whose collections then took 10 ms.
   */
  readonly #open: ExchangePlace[] = [];
  /** Each sweep fails these again, because one attempt does not abort a complete but unread response. */
  readonly #ended = new WeakMap<OpenExchange, DomainError>();
  readonly #shares = new ShareCounts();
  readonly #timer: NodeJS.Timeout;
  readonly #countEnd: (code: string) => void;
  #isSweeping = false;

  constructor({ verifier, access, logger, metrics }: OpenExchangesOptions) {
    this.#verifier = verifier;
    this.#access = access;
    this.#logger = logger;
    this.#timer = setInterval(() => void this.#sweep(), SWEEP_MS);
    this.#timer.unref();
    const ends = metrics.counter(
      "gatehouse_exchanges_ended_total",
      "Forwarded calls, WebSockets and exports ended because their token became invalid or could not be verified, or WebSockets because their route changed.",
      ["code"],
    );
    this.#countEnd = (code) => ends.inc({ code });
    metrics.gauge("gatehouse_open_exchanges", "Open forwarded calls, WebSockets and exports.", [], (gauge) =>
      gauge.set(this.#open.length),
    );
  }

  /** @throws {DomainError} `too_many_requests`. */
  enter(exchange: OpenExchange, share: Share): void {
    const place = { exchange, leaveShare: this.#shares.enter(share), index: this.#open.length };
    exchange.place = place;
    this.#open.push(place);
  }

  /** Idempotent. */
  leave(exchange: OpenExchange): void {
    const { place } = exchange;
    if (place === undefined) return;
    exchange.place = undefined;
    place.leaveShare();
    const last = this.#open.pop();
    if (last === undefined || last === place) return;
    last.index = place.index;
    this.#open[last.index] = last;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Never rejects. The next sweep retries. */
  async #sweep(): Promise<void> {
    if (this.#isSweeping) return;
    this.#isSweeping = true;
    const asked = new Set<Promise<void>>();
    const failures: unknown[] = [];
    for (const { exchange } of [...this.#open]) {
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
    else if (exchange.isOffRoute) this.#end(exchange, new DomainError("service_unavailable"));
    else if (exchange.call.accessToken !== "") this.#check(exchange, asked, failures);
  }

  /** A remote verification stays in `asked` until it settles. It never rejects. */
  #check(exchange: OpenExchange, asked: Set<Promise<void>>, failures: unknown[]): void {
    const verdict = this.#verify(exchange.call.accessToken);
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

  /** A token of unknown state is refused. */
  #verify(accessToken: string): Verification | DomainError | Promise<Verification | DomainError> {
    const unknown = (cause: unknown) => new DomainError("service_unavailable", undefined, { cause });
    try {
      const verdict = this.#verifier.verify(accessToken, undefined);
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
    if (verdict.kind === "active") {
      const refusal = refusalOf(() => assertMayCall(this.#access, exchange.call.policy, verdict.principal));
      if (refusal !== undefined) this.#end(exchange, refusal);
      return;
    }
    const isExpired = verdict.reason === "expired";
    const ageMs = performance.now() - exchange.call.startedMs;
    if (isExpired && exchange.isWaiting && ageMs < MAY_OUTLIVE_TOKEN_MS) return;
    this.#end(exchange, new DomainError(isExpired ? "token_expired" : "token_invalid"));
  }

  #end(exchange: OpenExchange, error: DomainError): void {
    // It may have ended during the verification.
    if (exchange.place === undefined) return;
    this.#ended.set(exchange, error);
    this.#countEnd(error.code);
    exchange.fail(error);
  }
}

function refusalOf(assert: () => void): DomainError | undefined {
  try {
    assert();
    return undefined;
  } catch (error) {
    if (error instanceof DomainError) return error;
    throw error;
  }
}
