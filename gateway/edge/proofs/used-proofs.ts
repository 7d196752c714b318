import { hash, randomBytes } from "node:crypto";
import type { SharedRedis } from "#kit/redis/shared-redis.ts";
import { DomainError } from "#kit/values/errors.ts";
import { type DpopProof, MAX_PROOF_AGE_MS } from "./dpop-proof.ts";

export type ProofUse = "first" | "again" | "needs_nonce";

export interface UsedProofsOptions {
  redis: Pick<SharedRedis, "ask" | "connectedAtMs"> | undefined;
  /** Monotonic, the same as that of `redis`. */
  nowMs: () => number;
  /** Counts from the epoch. */
  wallMs: () => number;
  maxRemembered?: number;
}

/** A proof is acceptable between its greatest age before and after `iat`. */
const PROOF_LIFE_MS = 2 * MAX_PROOF_AGE_MS;
/** Redis may have lost what it knew before a connection, so only later proofs are certain. */
const REDIS_TRUSTED_AFTER_MS = PROOF_LIFE_MS + 5_000;
const REDIS_KEEPS_MS = 2 * PROOF_LIFE_MS;
const KEY_PREFIX = "gatehouse:dpop:";
const NONCE_CHANGES_MS = 60_000;
const CLOCK_STEP_MS = 1_000;

/** Says that the proof has none: gateways that ask Redis take it. */
const SHARED_NONCE = "shared";

/** About 120 bytes each. */
const MAX_REMEMBERED = 400_000;
const MAX_SHARE_OF_ONE = 0.05;
const RETRY_AFTER_MS = 1_000;

/**
 * Each proof counts once, on all gateways. Redis remembers those without a nonce. Without its answer, only proofs with a
 * nonce of this process are accepted, and its memory has all of them.
 * @see RFC 9449 §8, §9, §11.1.
 */
export class UsedProofs {
  readonly #redis: UsedProofsOptions["redis"];
  readonly #nowMs: () => number;
  readonly #wallMs: () => number;
  readonly #ofCalls: ProofMemory;
  readonly #ofTokenRequests: ProofMemory;
  #nonce = newNonce();
  #nonceBefore = newNonce();
  #nonceSinceMs: number;
  #latestWallMs = 0;

  constructor({ redis, nowMs, wallMs, maxRemembered = MAX_REMEMBERED }: UsedProofsOptions) {
    this.#redis = redis;
    this.#nowMs = nowMs;
    this.#wallMs = wallMs;
    this.#nonceSinceMs = nowMs();
    this.#ofCalls = new ProofMemory(maxRemembered);
    this.#ofTokenRequests = new ProofMemory(Math.ceil(maxRemembered / 10));
  }

  /** For the client's next proofs. */
  get nonce(): string {
    return this.#trustedRedis() === undefined ? this.#ownNonces()[0] : SHARED_NONCE;
  }

  get size(): number {
    return this.#ofCalls.size + this.#ofTokenRequests.size;
  }

  /** What is known of a call's valid proof before its caller's limit is asked. Remembers nothing. */
  look(proof: DpopProof): ProofUse {
    const { nonce = SHARED_NONCE } = proof;
    if (nonce === SHARED_NONCE) return this.#trustedRedis() === undefined ? "needs_nonce" : "first";
    if (!this.#ownNonces().includes(nonce)) return "needs_nonce";
    return this.#ofCalls.has(nameOf(proof)) ? "again" : "first";
  }

  /**
   * @param proof that is valid. @param userId or client id of the valid access token whose key it proves, when its limit
   * has been asked. Undefined in a request for tokens, which only networks are bounded in.
   * @throws {DomainError} `too_many_requests`, `service_unavailable`.
   */
  use(proof: DpopProof, userId: string | undefined): ProofUse | Promise<ProofUse> {
    const { jkt, nonce = SHARED_NONCE } = proof;
    const name = nameOf(proof);
    if (nonce === SHARED_NONCE) return this.#useOnce(name);
    if (!this.#ownNonces().includes(nonce)) return "needs_nonce";
    if (userId !== undefined) return this.#ofCalls.add(userId, name) ? "first" : "again";
    // A stranger fills this memory, where a replay gives tokens of the same key.
    this.#ofTokenRequests.forgetIfFull();
    return this.#ofTokenRequests.add(jkt, name) ? "first" : "again";
  }

  async #useOnce(name: string): Promise<ProofUse> {
    const answer = await this.#trustedRedis()?.ask((client) =>
      client.set(`${KEY_PREFIX}${name}`, "", "PX", REDIS_KEEPS_MS, "NX"),
    );
    if (answer === undefined) return "needs_nonce";
    return answer === "OK" ? "first" : "again";
  }

  /** A clock that was set back makes proofs new again that Redis has forgotten. */
  #trustedRedis(): Pick<SharedRedis, "ask"> | undefined {
    const wallMs = this.#wallMs();
    this.#latestWallMs = Math.max(this.#latestWallMs, wallMs);
    const sinceMs = this.#redis?.connectedAtMs;
    const isTrusted =
      sinceMs !== undefined &&
      this.#nowMs() - sinceMs > REDIS_TRUSTED_AFTER_MS &&
      this.#latestWallMs - wallMs < CLOCK_STEP_MS;
    return isTrusted ? this.#redis : undefined;
  }

  /**
   * The present one and the one before. Each call that finds the present one older than a minute changes it, so one is
   * accepted for up to three minutes.
   */
  #ownNonces(): [string, string] {
    const ageMs = this.#nowMs() - this.#nonceSinceMs;
    if (ageMs >= NONCE_CHANGES_MS) {
      this.#nonceBefore = ageMs < 2 * NONCE_CHANGES_MS ? this.#nonce : newNonce();
      this.#nonce = newNonce();
      this.#nonceSinceMs = this.#nowMs();
      this.#ofCalls.forgetOlder();
      this.#ofTokenRequests.forgetOlder();
    }
    return [this.#nonce, this.#nonceBefore];
  }
}

function nameOf({ jkt, jti }: DpopProof): string {
  return hash("sha256", `${jkt} ${jti}`, "base64url");
}

function newNonce(): string {
  return randomBytes(16).toString("base64url");
}

interface Generation {
  proofs: Set<string>;
  /** By user or client, so that many keys of one are one; of requests for tokens by key. */
  countOf: Map<string, number>;
}

/** As long as the two nonces, so that a proof is remembered while its nonce is accepted. */
class ProofMemory {
  readonly #max: number;
  readonly #maxOfOne: number;
  #newer = emptyGeneration();
  #older = emptyGeneration();

  constructor(max: number) {
    this.#max = max;
    this.#maxOfOne = Math.max(1, Math.floor(max * MAX_SHARE_OF_ONE));
  }

  get size(): number {
    return this.#newer.proofs.size + this.#older.proofs.size;
  }

  has(name: string): boolean {
    return this.#newer.proofs.has(name) || this.#older.proofs.has(name);
  }

  /**
   * One caller has at most as many as are free: many greedy ones still leave room for the next.
   * @returns whether it is new. @throws {DomainError}
   */
  add(caller: string, name: string): boolean {
    const [newer, older] = [this.#newer, this.#older];
    if (this.has(name)) return false;
    const count = newer.countOf.get(caller) ?? 0;
    const free = Math.max(this.#max - this.size, 1);
    if (count + (older.countOf.get(caller) ?? 0) >= Math.min(this.#maxOfOne, free))
      throw new DomainError("too_many_requests", undefined, { retryAfterMs: RETRY_AFTER_MS });
    if (this.size >= this.#max)
      throw new DomainError("service_unavailable", "Too many proofs", { retryAfterMs: RETRY_AFTER_MS });
    newer.proofs.add(name);
    newer.countOf.set(caller, count + 1);
    return true;
  }

  forgetIfFull(): void {
    if (this.#newer.proofs.size >= this.#max / 2) this.forgetOlder();
  }

  forgetOlder(): void {
    this.#older = this.#newer;
    this.#newer = emptyGeneration();
  }
}

function emptyGeneration(): Generation {
  return { proofs: new Set(), countOf: new Map() };
}
