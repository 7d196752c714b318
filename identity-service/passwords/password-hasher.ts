import type { hash, verify } from "@node-rs/argon2";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { Account } from "../users/account.ts";
import { drawCost, dummyHash, type UsedCost } from "./dummy-cost.ts";
import { readForeignHash } from "./foreign-hash.ts";
import type { HashQueue } from "./hash-queue.ts";
import {
  type Argon2Parameters,
  costText,
  type Pepper,
  readStoredHash,
  withoutPepperId,
  withPepperId,
} from "./stored-hash.ts";

/** `Algorithm.Argon2id` is a const enum, which cannot be erased. */
const ARGON2ID = 2;
const OUTPUT_BYTES = 32;

export type Verdict =
  | "match"
  /** With weaker parameters, another pepper, or of another system. */
  | "match_outdated"
  | "mismatch";

export interface Verification {
  /** Canonical. Selects the cost of a dummy. */
  address?: string;
  /** Does equal work on a dummy. */
  neverMatches?: boolean;
}

/** Argon2id through the hash queue. Passwords are normalised to NFC. */
export interface PasswordHasher {
  /** PHC string with the pepper's `keyid`. @throws {DomainError} `busy`. */
  hash(password: string, deadlineMs: number): Promise<string>;
  /** Always costs one verification, of a dummy if need be. @throws {DomainError} `busy`. */
  verify(
    account: Pick<Account, "id" | "passwordHash"> | undefined,
    password: string,
    deadlineMs: number,
    how?: Verification,
  ): Promise<Verdict>;
  /** Whether a password can match it: it is whole, and its pepper is here. */
  isReadable(stored: string): boolean;
  /** Costs of dummies. Default: the current parameters. */
  useCosts(used: readonly UsedCost[]): void;
}

interface ReadableHash {
  /** All before the salt. */
  cost: string;
  /** And the password may be hashed anew. */
  isOutdated(password: string): boolean;
  verify(password: string): Promise<boolean>;
}

interface Argon2 {
  hash: typeof hash;
  verify: typeof verify;
}

export interface PasswordHasherOptions {
  argon2: Argon2;
  parameters: Argon2Parameters;
  pepper?: Pepper | undefined;
  previousPepper?: Pepper | undefined;
  /** For `drawCost`. */
  costKey: Buffer;
  queue: HashQueue;
  logger: Logger;
}

/** RFC 9106; parameters from the OWASP Password Storage Cheat Sheet. */
export function createPasswordHasher(options: PasswordHasherOptions): PasswordHasher {
  const { argon2, parameters, pepper, previousPepper, costKey, queue, logger } = options;
  const peppers = [pepper, previousPepper].filter((each) => each !== undefined);

  async function compute(password: string): Promise<string> {
    const hash = await argon2.hash(seasoned(password, pepper), {
      algorithm: ARGON2ID,
      memoryCost: parameters.memoryKib,
      timeCost: parameters.iterations,
      parallelism: parameters.parallelism,
      outputLen: OUTPUT_BYTES,
    });
    return pepper === undefined ? hash : withPepperId(hash, pepper.id);
  }

  /** Undefined if unreadable. */
  function readable(stored: string): ReadableHash | undefined {
    const own = readStoredHash(stored);
    if (own === undefined) {
      const foreign = readForeignHash(stored);
      return foreign && { cost: foreign.cost, isOutdated: foreign.readsWhole, verify: foreign.verify };
    }
    const applied = peppers.find(({ id }) => id === own.pepperId);
    if (own.pepperId !== undefined && applied === undefined) return undefined;
    return {
      cost: costText(own),
      isOutdated: () => isCheaper(own, parameters) || own.pepperId !== pepper?.id,
      verify: (password) => argon2.verify(withoutPepperId(stored), seasoned(password, applied)),
    };
  }

  let used: readonly UsedCost[] = [];

  /** Computes a hash, and compares it with nobody's. */
  async function waste(cost: string, password: string): Promise<void> {
    await readable(dummyHash(cost))?.verify(password);
  }

  return {
    hash: (password, deadlineMs) => queue.run(() => compute(password), deadlineMs),

    isReadable: (stored) => readable(stored) !== undefined,

    useCosts(sample) {
      used = sample;
    },

    async verify(account, password, deadlineMs, { address = "", neverMatches = false } = {}) {
      const stored = account?.passwordHash ?? undefined;
      const hash = stored === undefined ? undefined : readable(stored);
      if (stored !== undefined && hash === undefined) {
        logger.error(
          { userId: account?.id },
          "stored password hash is corrupt or of an unknown pepper; its account cannot log in",
        );
      }
      if (hash === undefined || neverMatches) {
        const cost = hash?.cost ?? drawCost(used, costText(parameters), costKey, address);
        await queue.run(() => waste(cost, password), deadlineMs);
        return "mismatch";
      }
      if (!(await queue.run(() => hash.verify(password), deadlineMs))) return "mismatch";
      return hash.isOutdated(password) ? "match_outdated" : "match";
    },
  };
}

function seasoned(password: string, pepper: Pepper | undefined): string {
  const text = password.normalize("NFC");
  return pepper === undefined ? text : pepper.apply(text);
}

/** Stronger hashes are kept. */
function isCheaper(cost: Argon2Parameters, current: Argon2Parameters): boolean {
  return cost.memoryKib < current.memoryKib || cost.iterations < current.iterations;
}
