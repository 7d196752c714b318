import * as argon2 from "@node-rs/argon2";
import { v7 as uuidv7 } from "uuid";
import { vi } from "vitest";
import { createLogger } from "../service-kit/logger.ts";
import { createMetrics } from "../service-kit/metrics.ts";
import type { Sql } from "../service-kit/postgres.ts";
import { commonPasswords } from "./common-passwords.ts";
import { createHashQueue } from "./hash-queue.ts";
import { createPasswordHasher } from "./password-hasher.ts";
import type { Argon2Parameters } from "./stored-hash.ts";
import type { NewSession, SessionTokens } from "./token-service-client.ts";

export const FLOOR: Argon2Parameters = { memoryKib: 19_456, iterations: 2, parallelism: 1 };

/** Long after any test. */
export const soon = () => Date.now() + 60_000;

/**
 * What the use cases need, for tests: real argon2 that is counted, a queue that is never full, a standing clock,
 * and a token-service that notes what it is asked for.
 */
export async function testDeps(sql: Sql, parameters = FLOOR) {
  const counted = { hash: vi.fn(argon2.hash), verify: vi.fn(argon2.verify) };
  const logLines: string[] = [];
  const logger = createLogger("test", "info", { write: (line) => void logLines.push(line) });
  const queue = createHashQueue({
    concurrency: 2,
    maxWaiting: 1_000,
    maxWaitMs: 60_000,
    now: Date.now,
    metrics: createMetrics("test"),
  });
  const passwords = await createPasswordHasher({ argon2: counted, parameters, queue, logger });
  counted.hash.mockClear();
  const issueSession = vi.fn(async ({ userId }: NewSession): Promise<SessionTokens> => {
    return { accessToken: "access", refreshToken: "refresh", expiresInS: 900, sessionId: uuidv7(), userId };
  });
  return {
    sql,
    passwords,
    passwordPolicy: { minLength: 8, common: commonPasswords(8) },
    tokenService: { issueSession },
    now: () => new Date("2031-01-02T03:04:05.678Z"),
    newId: () => uuidv7(),
    wakeMailWorker: vi.fn(),
    logger,
    argon2: counted,
    logLines,
  };
}
