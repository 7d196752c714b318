import { LogsVerification, type Trust } from "./logs-verification.ts";
import type { LogsVerdict } from "./verdict.ts";

export interface VerifyLogsOptions<T> {
  /** A promise per line would cost more than its hashes. */
  batches: AsyncIterable<readonly T[]>;
  /** @throws {LineError} */
  read: (item: T) => unknown;
  trust: Trust;
  onProgress?: (progress: LogsVerification["progress"]) => void;
}

/** @throws {NotAnExportError} for another file, and errors of the source. */
export async function verifyLogs<T>({
  batches,
  read,
  trust,
  onProgress,
}: VerifyLogsOptions<T>): Promise<LogsVerdict> {
  const verification = new LogsVerification(trust);
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
