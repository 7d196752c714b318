import { LogVerification, type Trust } from "./log-verification.ts";
import type { Verdict } from "./verdict.ts";

export interface VerifyLogOptions<T> {
  /** A promise per line would cost more than its hashes. */
  batches: AsyncIterable<readonly T[]>;
  /** @throws {LineError} */
  read: (item: T) => unknown;
  trust: Trust;
  onProgress?: (progress: LogVerification["progress"]) => void;
}

/** @throws {NotAnExportError} for another file, and errors of the source. */
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
