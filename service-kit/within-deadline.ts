import { DomainError } from "./errors.ts";

/**
 * Waits for work no longer than this. The work itself goes on: its result is then nobody's.
 *
 * @throws {DomainError} `service_unavailable` once `timeoutMs` have passed.
 */
export async function withinDeadline<T>(work: Promise<T>, timeoutMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () => reject(new DomainError("service_unavailable", undefined, { retryAfterMs: 1_000 })),
      timeoutMs,
    );
  });
  try {
    return await Promise.race([work, deadline]);
  } finally {
    clearTimeout(timer);
  }
}
