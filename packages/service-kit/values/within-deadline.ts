import { DomainError } from "./errors.ts";

/** Does not stop the work. @throws {DomainError} `service_unavailable` after `timeoutMs`. */
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
