import { randomBytes } from "node:crypto";
import type { hash, verify } from "@node-rs/argon2";
import type { Logger } from "../../service-kit/logger.ts";
import type { Account } from "../users/account.ts";
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

/** `Algorithm.Argon2id` is a const enum, which cannot be erased. */
const ARGON2ID = 2;
const OUTPUT_BYTES = 32;
const SALT_BYTES = 16;

export type Verdict =
  | "match"
  /** With weaker parameters or another pepper. */
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
  /** Costs of dummies. Default: the current parameters. */
  useCosts(used: readonly UsedCost[]): void;
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
  function readable(stored: string): (StoredHash & { pepper: Pepper | undefined }) | undefined {
    const hash = readStoredHash(stored);
    if (hash === undefined) return undefined;
    const found = peppers.find(({ id }) => id === hash.pepperId);
    return hash.pepperId !== undefined && found === undefined ? undefined : { ...hash, pepper: found };
  }

  const dummyEnd = `$${unpadded(randomBytes(SALT_BYTES))}$${unpadded(randomBytes(OUTPUT_BYTES))}`;
  let used: readonly UsedCost[] = [];

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
          { userId: account?.id },
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

function unpadded(bytes: Buffer): string {
  return bytes.toString("base64").replaceAll("=", "");
}

function seasoned(password: string, pepper: Pepper | undefined): string {
  const text = password.normalize("NFC");
  return pepper === undefined ? text : pepper.apply(text);
}

/** Stronger hashes are kept. */
function isCheaper(cost: Argon2Parameters, current: Argon2Parameters): boolean {
  return cost.memoryKib < current.memoryKib || cost.iterations < current.iterations;
}
