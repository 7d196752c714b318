import { randomBytes } from "node:crypto";
import type { hash, verify } from "@node-rs/argon2";
import type { Logger } from "../service-kit/logger.ts";
import type { HashQueue } from "./hash-queue.ts";
import { type Argon2Parameters, readStoredHash } from "./stored-hash.ts";

/** `Algorithm.Argon2id`; the library declares it as a const enum, which type stripping cannot read. */
const ARGON2ID = 2;
const OUTPUT_BYTES = 32;

/** What came of comparing a password with a stored hash. */
export type Verdict =
  | "match"
  /** A match, but the hash costs less than a new one would: replace it. */
  | "match_outdated"
  | "mismatch";

/** The account whose password is checked. */
interface HashedCredential {
  user: { id: string };
  /** PHC string; null if the account has no password. */
  passwordHash: string | null;
}

/** Hashes passwords with argon2id, through the hash queue. Passwords are taken in NFC. */
export interface PasswordHasher {
  /**
   * @returns a PHC string with a salt of 16 bytes and an output of 32.
   * @throws {DomainError} `busy`.
   */
  hash(password: string, deadlineMs: number): Promise<string>;
  /**
   * Costs one verification whatever is given: without an account, a password or a readable hash, one against
   * a dummy with the current parameters, through the same queue. A hash that we would not have written is
   * logged and matches nothing.
   *
   * @throws {DomainError} `busy`.
   */
  verify(account: HashedCredential | undefined, password: string, deadlineMs: number): Promise<Verdict>;
}

/** The part of `@node-rs/argon2` that is used; handed in so that a test can count. */
export interface Argon2 {
  hash: typeof hash;
  verify: typeof verify;
}

export interface PasswordHasherOptions {
  argon2: Argon2;
  parameters: Argon2Parameters;
  queue: HashQueue;
  logger: Logger;
}

/** @see RFC 9106 for argon2id; OWASP Password Storage Cheat Sheet for the floor of its parameters. */
export async function createPasswordHasher(options: PasswordHasherOptions): Promise<PasswordHasher> {
  const { argon2, parameters, queue, logger } = options;

  function compute(password: string): Promise<string> {
    return argon2.hash(password.normalize("NFC"), {
      algorithm: ARGON2ID,
      memoryCost: parameters.memoryKib,
      timeCost: parameters.iterations,
      parallelism: parameters.parallelism,
      outputLen: OUTPUT_BYTES,
    });
  }

  const dummy = await compute(randomBytes(32).toString("base64"));

  return {
    hash: (password, deadlineMs) => queue.run(() => compute(password), deadlineMs),

    async verify(account, password, deadlineMs) {
      const stored = account?.passwordHash ?? undefined;
      const cost = stored === undefined ? undefined : readStoredHash(stored);
      if (stored !== undefined && cost === undefined) {
        logger.error(
          { userId: account?.user.id },
          "stored password hash is corrupt; its account cannot log in",
        );
      }
      const isReal = stored !== undefined && cost !== undefined;
      const isEqual = await queue.run(
        () => argon2.verify(isReal ? stored : dummy, password.normalize("NFC")),
        deadlineMs,
      );
      if (!isReal || !isEqual) return "mismatch";
      return isCheaper(cost, parameters) ? "match_outdated" : "match";
    },
  };
}

/** Parameters that were lowered do not count: an account keeps the stronger hash it has. */
function isCheaper(cost: Argon2Parameters, current: Argon2Parameters): boolean {
  return cost.memoryKib < current.memoryKib || cost.iterations < current.iterations;
}
