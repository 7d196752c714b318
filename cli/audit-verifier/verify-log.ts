import { LogVerification, type Trust } from "./log-verification.ts";
import type { Verdict } from "./verdict.ts";

export interface VerifyLogOptions<T> {
  /** Lines in their order. In batches: a promise for each of a million lines would cost more than its hashes. */
  batches: AsyncIterable<readonly T[]>;
  /** @throws {LineError} */
  read: (item: T) => unknown;
  trust: Trust;
  /** Called after each batch. */
  onProgress?: (progress: LogVerification["progress"]) => void;
}

/**
 * Checks a whole log or a part of it.
 *
 * @throws {NotAnExportError} if it is none; whatever the source throws.
 */
export async function verifyLog<T>({
  batches,
  read,
  trust,
  onProgress,
}: VerifyLogOptions<T>): Promise<Verdict> {
  const verification = new LogVerification(trust);
  try {
    for await (const batch of batches) {
      for (const item of batch) verification.take(() => read(item));
      onProgress?.(verification.progress);
    }
    return verification.finish();
  } finally {
    verification.close();
  }
}
