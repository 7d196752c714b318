import { randomBytes } from "node:crypto";
import type { hash, verify } from "@node-rs/argon2";
import type { Logger } from "../../service-kit/logger.ts";
import { drawCost, type UsedCost } from "./dummy-cost.ts";
import type { HashQueue } from "./hash-queue.ts";
import type { Pepper } from "./pepper.ts";
import {
  type Argon2Parameters,
  readStoredHash,
  type StoredHash,
  withoutPepperId,
  withPepperId,
} from "./stored-hash.ts";

/** `Algorithm.Argon2id`; the library declares it as a const enum, which type stripping cannot read. */
const ARGON2ID = 2;
const OUTPUT_BYTES = 32;
const SALT_BYTES = 16;

/** What came of comparing a password with a stored hash. */
export type Verdict =
  | "match"
  /** A match, but the hash costs less than a new one would, or has another pepper: replace it. */
  | "match_outdated"
  | "mismatch";

/** The account whose password is checked. */
interface HashedCredential {
  user: { id: string };
  /** PHC string; null if the account has no password. */
  passwordHash: string | null;
}

export interface Verification {
  /** Canonical, where that of the account is asked for: chooses what a dummy costs. */
  address?: string;
  /** The work of a comparison with the account's hash, without looking at it. */
  neverMatches?: boolean;
}

/** Hashes passwords with argon2id, through the hash queue. Passwords are taken in NFC. */
export interface PasswordHasher {
  /**
   * @returns a PHC string with a salt of 16 bytes and an output of 32, and with the pepper's `keyid` if there is one.
   * @throws {DomainError} `busy`.
   */
  hash(password: string, deadlineMs: number): Promise<string>;
  /**
   * Costs one verification whatever is given: without an account, a password or a readable hash, one against
   * a dummy with parameters that some account has, through the same queue. A hash that we would not have written is
   * logged and matches nothing.
   *
   * @throws {DomainError} `busy`.
   */
  verify(
    account: HashedCredential | undefined,
    password: string,
    deadlineMs: number,
    how?: Verification,
  ): Promise<Verdict>;
  /** What stored hashes cost at present, for dummies. Until then they cost what new ones do. */
  useCosts(used: readonly UsedCost[]): void;
}

/** The part of `@node-rs/argon2` that is used; handed in so that a test can count. */
export interface Argon2 {
  hash: typeof hash;
  verify: typeof verify;
}

export interface PasswordHasherOptions {
  argon2: Argon2;
  parameters: Argon2Parameters;
  /** Goes into new hashes. */
  pepper?: Pepper | undefined;
  /** The one before, while hashes with it exist. */
  previousPepper?: Pepper | undefined;
  /** Chooses what dummies cost: 32 random bytes, the same in every replica. */
  costKey: Buffer;
  queue: HashQueue;
  logger: Logger;
}

/** @see RFC 9106 for argon2id; OWASP Password Storage Cheat Sheet for the floor of its parameters. */
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

  /** Undefined if we would not have written it, or lack its pepper. */
  function readable(stored: string): (StoredHash & { pepper: Pepper | undefined }) | undefined {
    const hash = readStoredHash(stored);
    if (hash === undefined) return undefined;
    const found = peppers.find(({ id }) => id === hash.pepperId);
    return hash.pepperId !== undefined && found === undefined ? undefined : { ...hash, pepper: found };
  }

  const dummyEnd = `$${unpadded(randomBytes(SALT_BYTES))}$${unpadded(randomBytes(OUTPUT_BYTES))}`;
  let used: readonly UsedCost[] = [];

  /** Nothing matches it, and it costs a verification with these parameters. */
  function dummy({ memoryKib, iterations, parallelism }: Argon2Parameters): string {
    return `$argon2id$v=19$m=${memoryKib},t=${iterations},p=${parallelism}${dummyEnd}`;
  }

  return {
    hash: (password, deadlineMs) => queue.run(() => compute(password), deadlineMs),

    useCosts(sample) {
      used = sample;
    },

    async verify(account, password, deadlineMs, { address = "", neverMatches = false } = {}) {
      const stored = account?.passwordHash ?? undefined;
      const cost = stored === undefined ? undefined : readable(stored);
      if (stored !== undefined && cost === undefined) {
        logger.error(
          { userId: account?.user.id },
          "stored password hash is corrupt or of an unknown pepper; its account cannot log in",
        );
      }
      const isReal = stored !== undefined && cost !== undefined && !neverMatches;
      const isEqual = await queue.run(
        () =>
          isReal
            ? argon2.verify(withoutPepperId(stored), seasoned(password, cost.pepper))
            : argon2.verify(
                dummy(cost ?? drawCost(used, parameters, costKey, address)),
                seasoned(password, pepper),
              ),
        deadlineMs,
      );
      if (!isReal || !isEqual) return "mismatch";
      const isOutdated = isCheaper(cost, parameters) || cost.pepperId !== pepper?.id;
      return isOutdated ? "match_outdated" : "match";
    },
  };
}

/** Base64 as in PHC strings. */
function unpadded(bytes: Buffer): string {
  return bytes.toString("base64").replaceAll("=", "");
}

/** What argon2 is given for a password. */
function seasoned(password: string, pepper: Pepper | undefined): string {
  const text = password.normalize("NFC");
  return pepper === undefined ? text : pepper.apply(text);
}

/** Parameters that were lowered do not count: an account keeps the stronger hash it has. */
function isCheaper(cost: Argon2Parameters, current: Argon2Parameters): boolean {
  return cost.memoryKib < current.memoryKib || cost.iterations < current.iterations;
}
