import { connectivityState } from "@grpc/grpc-js";
import { LRUCache } from "lru-cache";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { callUnary, createRpcClient } from "#kit/rpc/rpc-client.ts";
import type { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";
import { isRoleName } from "#kit/values/access-names.ts";
import { AUDIENCE_FORM, isAudience } from "#kit/values/audience.ts";
import { boundedCache } from "#kit/values/bounded-cache.ts";
import { DomainError } from "#kit/values/errors.ts";
import { PrincipalKind, type Principal as PrincipalMessage } from "#proto/gatehouse/token/v1/principal.ts";
import {
  InactiveReason,
  TokenServiceClient,
  type VerifyTokenResponse,
} from "#proto/gatehouse/token/v1/token_service.ts";
import { CLOCK_SKEW_S, parseAcr } from "./assurance.ts";
import { isApiKey } from "./bearer-token.ts";
import { CallShares, FORGERIES, type Place } from "./call-shares.ts";
import { MAX_TOKEN_CHARACTERS, parseCompactJws } from "./compact-jws.ts";
import type {
  Principal,
  RequestVerifier,
  Subject,
  Verification,
  TokenVerifier as Verifier,
} from "./principal.ts";
import { RevocationSet } from "./revocation-set.ts";
import {
  KEY_WAIT_MS,
  MAX_KEEP_MS,
  RevocationWatch,
  SILENCE_MS,
  type VerifierLogger,
} from "./revocation-watch.ts";
import { isForged, type Screening, screenToken } from "./token-rules.ts";

/** Of `packages/service-kit/telemetry/metrics.ts`, or of anything that counts. */
export interface VerifierMetrics {
  counter(name: string, help: string, labels: readonly string[]): { labels(value: string): { inc(): void } };
  gauge(
    name: string,
    help: string,
    labels: readonly string[],
    collect: (gauge: { set(value: number): void }) => void,
  ): unknown;
}

export interface TokenVerifierOptions {
  /** `host:port` of token-service. */
  address: string;
  /** Must be in the `VERIFIERS` of token-service. */
  certificate: ProcessCertificate;
  logger: VerifierLogger;
  metrics: VerifierMetrics;
  /** The own name in the routes file. Tokens for others, also for the issuer, and API keys are then invalid. */
  audience?: string | undefined;
  /** Accepts tokens for the issuer as well: while a service that runs gets an audience. */
  acceptsIssuer?: boolean | undefined;
  /** About 1 KiB each. Default 50,000. */
  maxCachedTokens?: number;
  /** Default 1,000,000. Beyond it every token needs a call. */
  maxRevocations?: number;
  onKeyBanned?: (keyId: string) => void;
  /** Passed to `RevocationWatchOptions`. Old versions of token-service send none. */
  onKeys?: (keyIds: ReadonlySet<string>) => void;
  /** Default 800. */
  callTimeoutMs?: number;
  /**
   * `checked`: the caller checks the proof of `Principal.confirmation`, or all its calls come from the gateway, which has.
   * By default a token that is bound to a key is `invalid`.
   */
  boundTokens?: "refused" | "checked";
}

const DEFAULT_MAX_CACHED_TOKENS = 50_000;
const DEFAULT_CALL_TIMEOUT_MS = 800;
const DEFAULT_MAX_REVOCATIONS = 1_000_000;
const CALL_SHARES = { maxInFlight: 1_000, maxInFlightPerNetwork: 100, ...FORGERIES };
/** Tokens of unknown keys wait for the next heartbeat. */
const KEY_WAIT_SHARES = {
  maxInFlight: 5_000,
  maxInFlightPerNetwork: 50,
  maxRefusals: Number.POSITIVE_INFINITY,
  refusalsPerS: 0,
};
const MAX_REFUSED_TOKENS = 2_000;
/** A refusal may be temporary: clock skew, or a new key. */
const KEEP_REFUSED_MS = 10_000;

/** Of the warning of another audience, and of the look for a token that is signed. */
const WARN_EVERY_MS = 60_000;
const LOOK_EVERY_MS = 1_000;

const TOKEN_SHAPE = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/;

const INVALID: Verification = { kind: "inactive", reason: "invalid" };
const EXPIRED: Verification = { kind: "inactive", reason: "expired" };
const REVOKED: Verification = { kind: "inactive", reason: "revoked" };

/** Verifies a token by a call, then from memory. After 3 s of silence every token needs a call. */
export class TokenVerifier implements Verifier, RequestVerifier {
  readonly acceptsBound: boolean;
  readonly #options: TokenVerifierOptions;
  readonly #client: TokenServiceClient;
  readonly #watch: RevocationWatch;
  readonly #revoked: RevocationSet;
  readonly #known: LRUCache<string, KnownToken>;
  readonly #refused = new LRUCache<string, Verification>({ max: MAX_REFUSED_TOKENS, ttl: KEEP_REFUSED_MS });
  readonly #asking = new Map<string, Promise<Verification>>();
  readonly #calls = new CallShares({ ...CALL_SHARES, nowMs: () => performance.now() });
  readonly #keyWaits = new CallShares({ ...KEY_WAIT_SHARES, nowMs: () => performance.now() });
  readonly #lookups: Lookups;
  #audienceQuietUntilMs = 0;

  constructor(options: TokenVerifierOptions) {
    const { address, certificate, audience, metrics, logger, onKeyBanned, onKeys } = options;
    if (audience !== undefined && !isAudience(audience)) throw new Error(`audience ${AUDIENCE_FORM}`);
    this.#options = options;
    this.acceptsBound = options.boundTokens === "checked";
    this.#known = boundedCache(options.maxCachedTokens ?? DEFAULT_MAX_CACHED_TOKENS);
    const revoked = new RevocationSet(options.maxRevocations ?? DEFAULT_MAX_REVOCATIONS);
    const client = createRpcClient(TokenServiceClient, {
      address,
      service: "token-service",
      certificate,
      idempotentMethods: ["gatehouse.token.v1.TokenService/VerifyToken"],
      deadAfterMs: SILENCE_MS,
    });
    this.#revoked = revoked;
    this.#client = client;
    this.#watch = new RevocationWatch({ client, revoked, logger, onKeyBanned, onKeys });
    this.#lookups = countLookups(metrics);
    measureLag(metrics, this.#watch);
  }

  verify(token: string, clientIp: string | undefined): Verification | Promise<Verification> {
    const entry = this.#known.get(token);
    if (entry === undefined) return this.#verifyUnknown(token, clientIp);
    if (this.#isRevoked(entry.answer.principal)) {
      this.#known.delete(token);
      // The credential of an API key may be live again under another id.
      return isApiKey(token) ? this.#askOnce(token, clientIp) : revokedFor(entry.answer.principal);
    }
    const nowMs = performance.now();
    // A later revocation may have been forgotten.
    if (!isAlive(entry, nowMs) || nowMs >= entry.askedMs + this.#watch.leastKeptMs) {
      this.#known.delete(token);
      return this.#askOnce(token, clientIp);
    }
    const { kind, sessionId } = entry.answer.principal;
    const isFresh = this.#watch.isFreshFor(kind === "user" ? sessionId : undefined);
    if (!isFresh || !this.#revoked.isComplete(nowMs)) return this.#askOnce(token, clientIp);
    this.#lookups.memory.inc();
    return entry.answer;
  }

  refuseSession(sessionId: string): void {
    this.#revoked.addSession(sessionId, performance.now() + MAX_KEEP_MS);
  }

  /** Of accepted tokens. @throws {DomainError} `service_unavailable` before token-service was reached once. */
  issuer(): string {
    const { rules } = this.#watch;
    if (rules === undefined) throw new DomainError("service_unavailable", "token-service is silent");
    return rules.issuer;
  }

  isKeyBanned(keyId: string): boolean {
    return this.#revoked.hasKey(keyId);
  }

  nowMs(): number {
    return this.#watch.nowMs;
  }

  assertReady(): void {
    if (!this.#watch.isHeard) throw new DomainError("service_unavailable", "token-service is silent");
  }

  close(): void {
    this.#watch.close();
    this.#client.close();
  }

  #isRevoked({ kind, sessionId, tokenId, originTokenId, keyId, originKeyId }: Principal): boolean {
    const revoked = this.#revoked;
    return (
      revoked.hasSession(sessionId) ||
      revoked.hasKey(keyId) ||
      revoked.hasKey(originKeyId ?? "") ||
      (kind === "client" && (revoked.hasSession(tokenId) || revoked.hasSession(originTokenId ?? "")))
    );
  }

  #verifyUnknown(token: string, clientIp: string | undefined): Verification | Promise<Verification> {
    const { audience, acceptsIssuer } = this.#options;
    const isForIssuer = audience === undefined || acceptsIssuer === true;
    const screening = isApiKey(token) && isForIssuer ? "plausible" : this.#screen(token);
    if (screening === "plausible") return this.#refused.get(token) ?? this.#askOnce(token, clientIp);
    (screening === "expired" ? this.#lookups.expired : this.#lookups.screened).inc();
    if (screening === "unknown_key") return this.#awaitKey(token, clientIp);
    if (screening === "other_audience") this.#warnOfAudience(token);
    return screening === "expired" ? EXPIRED : INVALID;
  }

  #screen(token: string): Screening {
    if (token.length > MAX_TOKEN_CHARACTERS || !TOKEN_SHAPE.test(token)) return "invalid";
    const { rules, serverNowMs } = this.#watch;
    return rules === undefined
      ? "plausible"
      : screenToken(token, rules, serverNowMs, this.#audienceFor(token));
  }

  /** Only of a signed token: its audience is no text of a stranger's. */
  #warnOfAudience(token: string): void {
    const nowMs = performance.now();
    const { rules } = this.#watch;
    const jws = parseCompactJws(token);
    if (nowMs < this.#audienceQuietUntilMs || rules === undefined || typeof jws === "string") return;
    const hasKey = rules.keys.get(jws.header.kid)?.publicKey !== undefined;
    const isSigned = hasKey && !isForged(token, rules);
    this.#audienceQuietUntilMs = nowMs + (isSigned ? WARN_EVERY_MS : LOOK_EVERY_MS);
    if (!isSigned) return;
    const { logger, audience = rules.issuer, acceptsIssuer } = this.#options;
    const expected = acceptsIssuer === true ? `${audience} or ${rules.issuer}` : audience;
    const found = String(jws.payload.aud);
    logger.warn({ expected, found }, `a token for the audience ${found} is refused: this is ${expected}`);
  }

  async #awaitKey(token: string, clientIp: string | undefined): Promise<Verification> {
    const place = this.#keyWaits.enter(clientIp);
    try {
      this.#assertConnected();
      if (!(await this.#watch.readAgain(KEY_WAIT_MS))) throw new DomainError("service_unavailable");
    } finally {
      place.leave();
    }
    const isStillUnknown = this.#screen(token) === "unknown_key";
    return isStillUnknown ? INVALID : this.#askOnce(token, clientIp);
  }

  #askOnce(token: string, clientIp: string | undefined): Verification | Promise<Verification> {
    const running = this.#asking.get(token);
    if (running !== undefined) return running;
    const place = this.#calls.enter(clientIp);
    if (this.#isForged(token)) {
      place.refused();
      place.leave();
      this.#lookups.screened.inc();
      this.#refused.set(token, INVALID);
      return INVALID;
    }
    const call = this.#ask(token, place).finally(() => {
      place.leave();
      this.#asking.delete(token);
    });
    this.#asking.set(token, call);
    return call;
  }

  #isForged(token: string): boolean {
    const { rules } = this.#watch;
    return rules !== undefined && !isApiKey(token) && isForged(token, rules);
  }

  async #ask(token: string, place: Place): Promise<Verification> {
    const askedMs = performance.now();
    const audience = this.#audienceFor(token);
    const response = await this.#call(token, audience);
    const answer = decode(response, { acceptsBound: this.acceptsBound, audience });
    if (answer.kind !== "active") {
      if (answer.reason === "invalid") place.refused();
      // The signature of an `invalid` token is wrong or unchecked.
      const isSigned = answer.reason !== "invalid";
      const verdict: Verification = isSigned ? { ...answer, subject: signedSubject(token) } : answer;
      // What an earlier call said of it is over, also when the stream is fresh again.
      this.#known.delete(token);
      this.#refused.set(token, verdict);
      return verdict;
    }
    // A revocation during the call is newer than the answer.
    if (this.#isRevoked(answer.principal)) return revokedFor(answer.principal);
    this.#known.set(token, toKnownToken(answer, response, askedMs));
    return answer;
  }

  async #call(token: string, audience: string | undefined): Promise<VerifyTokenResponse> {
    const client = this.#client;
    this.#assertConnected();
    this.#lookups.service.inc();
    const context = newCallContext({ budgetMs: this.#options.callTimeoutMs ?? DEFAULT_CALL_TIMEOUT_MS });
    const request = { token, acceptsBound: this.acceptsBound, audience };
    try {
      return await callUnary(client, client.verifyToken, request, context);
    } catch (cause) {
      // Whatever token-service says of the call, it says nothing of the token.
      const retryAfterMs = cause instanceof DomainError ? cause.retryAfterMs : undefined;
      throw new DomainError("service_unavailable", undefined, {
        cause,
        ...(retryAfterMs !== undefined && { retryAfterMs }),
      });
    }
  }

  /**
   * Without it each request would wait for its deadline. The stream goes on to try; while its opening lasts, calls wait for the
   * connection. One connection of several replicas is enough.
   * @throws {DomainError} `service_unavailable` without a connection, once the stream has been silent.
   */
  #assertConnected(): void {
    if (!this.#watch.isSilent) return;
    const state = this.#client.getChannel().getConnectivityState(false);
    if (state !== connectivityState.READY)
      throw new DomainError("service_unavailable", "token-service is silent");
  }

  /** Undefined: the issuer. */
  #audienceFor(token: string): string | undefined {
    const { audience, acceptsIssuer } = this.#options;
    if (acceptsIssuer !== true) return audience;
    const jws = parseCompactJws(token);
    return typeof jws !== "string" && jws.payload.aud === audience ? audience : undefined;
  }
}

type Lookups = Record<"memory" | "service" | "screened" | "expired", { inc(): void }>;

function countLookups(metrics: VerifierMetrics): Lookups {
  const lookups = metrics.counter(
    "gatehouse_token_lookups_total",
    "Tokens by source of the answer: memory, service, or without a call: screened if forged, expired.",
    ["from"],
  );
  return {
    memory: lookups.labels("memory"),
    service: lookups.labels("service"),
    screened: lookups.labels("screened"),
    expired: lookups.labels("expired"),
  };
}

function measureLag(metrics: VerifierMetrics, watch: RevocationWatch): void {
  metrics.gauge(
    "gatehouse_verifier_lag_seconds",
    "Seconds since the newest known read of the revocation log.",
    [],
    (gauge) => gauge.set(watch.lagMs / 1_000),
  );
}

function revokedFor({ kind, userId, clientId, sessionId, role, scopes }: Principal): Verification {
  const subject = { kind, userId, clientId, sessionId, role, scopes };
  return { kind: "inactive", reason: "revoked", subject };
}

/** Requires a checked signature. */
function signedSubject(token: string): Subject | undefined {
  const jws = parseCompactJws(token);
  if (typeof jws === "string") return undefined;
  const { sub, sid, role = "", client_id: clientId } = jws.payload;
  if (typeof sub !== "string" || typeof sid !== "string" || typeof role !== "string") return undefined;
  const common = { sessionId: sid, role, scopes: [] };
  if (isRoleName(role)) return { ...common, kind: "user", userId: sub, clientId: "" };
  const isClient = role === "" && clientId === sub;
  return isClient ? { ...common, kind: "client", userId: "", clientId: sub } : undefined;
}

interface KnownToken {
  answer: Extract<Verification, { kind: "active" }>;
  askedMs: number;
  untilMs: number;
  /** Wall-clock time also advances during a suspend. */
  untilWallMs: number;
}

function toKnownToken(
  answer: KnownToken["answer"],
  { expiresInMs }: VerifyTokenResponse,
  askedMs: number,
): KnownToken {
  const expiresAtMs = answer.principal.expiresAt.getTime();
  return {
    answer,
    askedMs,
    untilMs: askedMs + Math.min(expiresInMs, MAX_KEEP_MS),
    untilWallMs: expiresAtMs + CLOCK_SKEW_S * 1_000,
  };
}

function isAlive({ untilMs, untilWallMs }: KnownToken, nowMs: number): boolean {
  return nowMs < untilMs && Date.now() < untilWallMs;
}

/** Missing or unknown values deny. */
function decode(
  response: VerifyTokenResponse,
  { acceptsBound, audience }: { acceptsBound: boolean; audience: string | undefined },
): Verification {
  if (response.active !== true) {
    if (response.reason === InactiveReason.EXPIRED) return EXPIRED;
    return response.reason === InactiveReason.REVOKED ? REVOKED : INVALID;
  }
  const { confirmation } = response.principal ?? {};
  // token-service has checked it. An answer that names another audience is not the answer to this question.
  if (audience !== undefined && response.principal?.audience !== audience) return INVALID;
  const principal = response.principal && decodePrincipal(response.principal);
  if (principal === undefined) return INVALID;
  if (confirmation === undefined) return { kind: "active", principal };
  const isKnown = confirmation.jkt !== "" || confirmation.x5tS256 !== "";
  return acceptsBound && isKnown ? { kind: "active", principal: { ...principal, confirmation } } : INVALID;
}

function decodePrincipal(message: PrincipalMessage): Principal | undefined {
  const { kind, userId, sessionId, tokenId, originTokenId, keyId, originKeyId } = message;
  const { clientId, scopes, role, amr, authTime, issuedAt, expiresAt } = message;
  const isNamed = userId !== "" && sessionId !== "" && tokenId !== "";
  if (!isNamed || issuedAt === undefined || expiresAt === undefined) return undefined;
  const common = { sessionId, tokenId, originTokenId, keyId, originKeyId, issuedAt, expiresAt };
  if (kind === PrincipalKind.CLIENT) {
    if (clientId !== userId || scopes.length === 0) return undefined;
    const client = { kind: "client", userId: "", clientId, scopes, role: "" } as const;
    return { ...common, ...client, amr: [], acr: 1, authTime: issuedAt };
  }
  const acr = parseAcr(message.acr);
  const isUser = kind === PrincipalKind.USER && keyId !== "" && isRoleName(role);
  if (!isUser || authTime === undefined || acr === undefined) return undefined;
  return { ...common, kind: "user", userId, clientId: "", scopes: [], role, amr, acr, authTime };
}
