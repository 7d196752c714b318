import { AsyncLocalStorage } from "node:async_hooks";
import { DomainError } from "./errors.ts";

export interface OpenCall {
  /** Milliseconds of `Date.now()`. */
  deadlineMs: number;
  isOpen: boolean;
  /** The caller no longer waits. */
  gone: Pick<AbortSignal, "aborted"> | undefined;
}

const calls = new AsyncLocalStorage<readonly OpenCall[]>();

/** Work that outlives the call has no deadline. A caller that has gone ends it at once. */
export function withCallDeadline<T>(
  deadlineMs: number,
  serve: () => Promise<T>,
  gone?: OpenCall["gone"],
): Promise<T> {
  const call = { deadlineMs, isOpen: true, gone };
  const close = () => {
    call.isOpen = false;
  };
  return calls.run([call], () => {
    const served = serve();
    served.then(close, close);
    return served;
  });
}

/** @param waiting may grow: the work is in time as long as one of these calls is. */
export function withCalls<T>(waiting: readonly OpenCall[], work: () => Promise<T>): Promise<T> {
  return calls.run(waiting, work);
}

/** One, or those that share the work. Empty outside of a call, and for work that outlives it. */
export function openCalls(): readonly OpenCall[] {
  return (calls.getStore() ?? []).filter(({ isOpen }) => isOpen);
}

/** The statements of one caller's calls hold one database connection at a time. */
const turns = new AsyncLocalStorage<string | undefined>();

export function withTurn<T>(key: string | undefined, work: () => Promise<T>): Promise<T> {
  return turns.run(key, work);
}

/** Undefined for work that outlives its call. */
export function callTurn(): string | undefined {
  return calls.getStore() !== undefined && openCalls().length === 0 ? undefined : turns.getStore();
}

/** Negative after the deadline or without a caller, undefined outside of a call. */
export function callTimeLeftMs(): number | undefined {
  const open = openCalls();
  if (open.length === 0) return undefined;
  const lastMs = Math.max(
    ...open.map(({ gone, deadlineMs }) => (gone?.aborted ? Number.NEGATIVE_INFINITY : deadlineMs)),
  );
  return lastMs - Date.now();
}

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
