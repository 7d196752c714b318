import { createSecretKey, type KeyObject } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { JWK } from "jose";
import type { Sql } from "#kit/database/postgres.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import { decrypt, type EncryptionKey } from "#kit/values/key-cipher.ts";
import { retiredKeyLifeS } from "../revocations/token-lifetimes.ts";
import { listKeys, type SigningKeyRow } from "./key-store.ts";
import { importPrivateKey, importPublicKey, refreshSecretContext, type SigningKey } from "./signing-key.ts";

export interface KeyRingOptions {
  sql: Sql;
  /** The current key comes first. */
  encryptionKeys: readonly EncryptionKey[];
  accessTtlS: number;
  now: () => Date;
  logger: Logger;
}

const LOOK_INTERVAL_MS = 250;
const MAX_LOOKING = 1_000;

export class KeyRing {
  readonly #options: KeyRingOptions;
  #keys = new Map<string, SigningKey>();
  /** May be newer than the keys in memory. */
  readonly #banned = new Set<string>();
  #reloading: Promise<void> | undefined;
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  /** A read that has not started. */
  #nextLook: Promise<void> | undefined;
  #looking = 0;

  constructor(options: KeyRingOptions) {
    this.#options = options;
  }

  reload(): Promise<void> {
    this.#reloading ??= this.#load().finally(() => {
      this.#reloading = undefined;
    });
    return this.#reloading;
  }

  /** Newest first. */
  list(): SigningKey[] {
    return [...this.#keys.values()];
  }

  /** The next key signs after a ban. @throws {DomainError} `service_unavailable` without a key. */
  active(): SigningKey & { privateKey: KeyObject } {
    for (const state of ["active", "next"] as const) {
      for (const key of this.#keys.values()) {
        const { privateKey } = key;
        const mayTakeOver = state === "active" || this.#banned.size > 0;
        if (key.state === state && mayTakeOver && privateKey !== undefined) return { ...key, privateKey };
      }
    }
    throw new DomainError("service_unavailable", "No signing key is active", { retryAfterMs: 1_000 });
  }

  find(keyId: string): SigningKey | undefined {
    return this.#keys.get(keyId);
  }

  /**
   * Another replica may have just created the key. Shared reads keep forged ids cheap.
   * @throws {DomainError} `service_unavailable` with too many waiting callers.
   */
  async findAgain(keyId: string): Promise<SigningKey | undefined> {
    if (this.#looking >= MAX_LOOKING) {
      throw new DomainError("service_unavailable", "Too many unknown keys", { retryAfterMs: 1_000 });
    }
    this.#looking += 1;
    try {
      this.#nextLook ??= this.#look();
      await this.#nextLook;
    } finally {
      this.#looking -= 1;
    }
    return this.#keys.get(keyId);
  }

  async #look(): Promise<void> {
    await sleep(Math.max(0, this.#lookedAtMs + LOOK_INTERVAL_MS - performance.now()));
    await this.#reloading?.catch(() => undefined); // It may have started before the key was created.
    this.#nextLook = undefined; // Later callers need a later read.
    this.#lookedAtMs = performance.now();
    await this.reload();
  }

  ban(keyId: string): void {
    this.#banned.add(keyId);
    const key = this.#keys.get(keyId);
    if (key === undefined) return;
    const { privateKey: _gone, ...rest } = key;
    this.#keys.set(keyId, { ...rest, state: "revoked" });
  }

  /** Reloads if another replica has changed the keys. Never throws. */
  follow(keyIds: readonly string[]): void {
    const usable = this.#published();
    if (usable.length === keyIds.length && usable.every(({ id }) => keyIds.includes(id))) return;
    this.reload().catch((error: unknown) => {
      this.#options.logger.warn({ err: error }, "the signing keys cannot be read");
    });
  }

  publicJwks(): { keys: JWK[] } {
    return { keys: this.#published().map(({ publicJwk }) => publicJwk) };
  }

  /** Those that may have signed an access token that is still accepted. */
  #published(): SigningKey[] {
    const { now, accessTtlS } = this.#options;
    const endedMs = now().getTime() - retiredKeyLifeS(accessTtlS) * 1_000;
    return this.list().filter(
      ({ state, retiredAt }) => state !== "revoked" && (retiredAt === null || retiredAt.getTime() > endedMs),
    );
  }

  async #load(): Promise<void> {
    const rows = await listKeys(this.#options.sql);
    this.#keys = new Map(rows.map((row) => [row.id, this.#import(row)]));
  }

  #import(row: SigningKeyRow): SigningKey {
    const known = this.#keys.get(row.id);
    const publicKey = known?.publicKey ?? importPublicKey(row.publicJwk, row.algorithm);
    const { id, algorithm, publicJwk, createdAt, activatedAt, retiredAt } = row;
    const isBanned = this.#banned.has(id);
    const state = isBanned ? "revoked" : row.state;
    const refreshSecret = known?.refreshSecret ?? this.#decryptRefreshSecret(row);
    const key = {
      id,
      algorithm,
      state,
      publicJwk,
      publicKey,
      createdAt,
      activatedAt,
      retiredAt,
      refreshSecret,
    };
    if (row.privateEncrypted === null || isBanned) return key;
    const privateKey = known?.privateKey ?? importPrivateKey(this.#decryptJwk(row, row.privateEncrypted));
    return { ...key, privateKey };
  }

  #decryptJwk({ id, encryptionKeyId }: SigningKeyRow, encrypted: Buffer): JWK {
    return JSON.parse(this.#decrypt(id, encryptionKeyId, encrypted, id).toString("utf8")) as JWK;
  }

  #decryptRefreshSecret({
    id,
    refreshSecretEncrypted: encrypted,
    refreshSecretKeyId,
  }: SigningKeyRow): KeyObject {
    return createSecretKey(this.#decrypt(id, refreshSecretKeyId, encrypted, refreshSecretContext(id)));
  }

  #decrypt(keyId: string, encryptionKeyId: string, encrypted: Buffer, context: string): Buffer {
    const encryptionKey = this.#options.encryptionKeys.find(({ id }) => id === encryptionKeyId);
    if (encryptionKey === undefined) {
      throw new Error(
        `signing key ${keyId} is encrypted with key ${encryptionKeyId}, which is not configured`,
      );
    }
    return decrypt(encryptionKey, encrypted, context);
  }
}

export function describeSigningKeys(
  metrics: Metrics,
  deps: { keys: Pick<KeyRing, "list">; maxAgeS: number; now: () => Date },
): void {
  metrics.gauge(
    "gatehouse_signing_key_age_seconds",
    "Seconds since the active signing key began to sign; NaN without one.",
    [],
    (gauge) => {
      const active = deps.keys.list().find(({ state }) => state === "active");
      const sinceMs = deps.now().getTime() - (active?.activatedAt?.getTime() ?? Number.NaN);
      gauge.set(sinceMs / 1_000);
    },
  );
  metrics
    .gauge("gatehouse_signing_key_max_age_seconds", "Age at which the active signing key is rotated.")
    .set(deps.maxAgeS);
}
