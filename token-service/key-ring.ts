import type { KeyObject } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { JWK } from "jose";
import { DomainError } from "../service-kit/errors.ts";
import { decrypt, type EncryptionKey } from "../service-kit/key-cipher.ts";
import type { Logger } from "../service-kit/logger.ts";
import type { Sql } from "../service-kit/postgres.ts";
import { listKeys, type SigningKeyRow } from "./key-store.ts";
import { importPrivateKey, importPublicKey, type SigningKey } from "./signing-key.ts";

export interface KeyRingOptions {
  sql: Sql;
  /** The present key-encryption key first. */
  encryptionKeys: readonly EncryptionKey[];
  logger: Logger;
}

const LOOK_INTERVAL_MS = 250;
/** Callers who wait for a look; beyond it they are told to come back. */
const MAX_LOOKING = 1_000;

/** The signing keys in memory, following the database. */
export class KeyRing {
  readonly #options: KeyRingOptions;
  #keys = new Map<string, SigningKey>();
  /** Named by the revocation log, which may be ahead of what was read of the keys. */
  readonly #banned = new Set<string>();
  #reloading: Promise<void> | undefined;
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  /** A look that has not begun. */
  #nextLook: Promise<void> | undefined;
  #looking = 0;

  constructor(options: KeyRingOptions) {
    this.#options = options;
  }

  /** Reads all keys. Calls that come while one runs share it. */
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

  /**
   * The key that signs: the active one. While that has been banned and the keys have not been read again, the next one,
   * which took its place in the ban's own transaction.
   *
   * @throws {DomainError} `service_unavailable` if there is none yet.
   */
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
   * Looks again for a key that is not known: another replica may have made it this moment. The look begins after the
   * call, so what it does not find is no key. At most four looks a second, shared by all who wait for one, so that
   * forged key ids cost next to nothing.
   *
   * @throws {DomainError} `service_unavailable` if nobody can look now.
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
    await this.#reloading?.catch(() => undefined); // it may have begun before the key was made
    this.#nextLook = undefined; // callers from now on wait for another one, which begins later
    this.#lookedAtMs = performance.now();
    await this.reload();
  }

  /** Stops using a key at once, ahead of the next reload. */
  ban(keyId: string): void {
    this.#banned.add(keyId);
    const key = this.#keys.get(keyId);
    if (key === undefined) return;
    const { privateKey: _gone, ...rest } = key;
    this.#keys.set(keyId, { ...rest, state: "revoked" });
  }

  /** Reads the keys again if these are not the ones in use: another replica has changed them. Never throws. */
  follow(keyIds: readonly string[]): void {
    const usable = this.list().filter(({ state }) => state !== "revoked");
    if (usable.length === keyIds.length && usable.every(({ id }) => keyIds.includes(id))) return;
    this.reload().catch((error: unknown) => {
      this.#options.logger.warn({ err: error }, "the signing keys cannot be read");
    });
  }

  /** What `/.well-known/jwks.json` shows: the keys whose tokens are accepted now or may be soon. */
  publicJwks(): { keys: JWK[] } {
    return { keys: this.list().flatMap((key) => (key.state === "revoked" ? [] : [key.publicJwk])) };
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
    const key = { id, algorithm, state, publicJwk, publicKey, createdAt, activatedAt, retiredAt };
    if (row.privateEncrypted === null || isBanned) return key;
    const privateKey = known?.privateKey ?? importPrivateKey(this.#decryptJwk(row));
    return { ...key, privateKey };
  }

  #decryptJwk(row: SigningKeyRow): JWK {
    const encryptionKey = this.#options.encryptionKeys.find((key) => key.id === row.encryptionKeyId);
    if (encryptionKey === undefined || row.privateEncrypted === null) {
      throw new Error(
        `signing key ${row.id} is encrypted with key ${row.encryptionKeyId}, which is not configured`,
      );
    }
    return JSON.parse(decrypt(encryptionKey, row.privateEncrypted, row.id).toString("utf8")) as JWK;
  }
}
