import { AsyncLocalStorage } from "node:async_hooks";

interface OpenCall {
  /** Milliseconds of `Date.now()`. */
  deadlineMs: number;
  isOpen: boolean;
  /** The caller no longer waits. */
  gone: AbortSignal | undefined;
}

const calls = new AsyncLocalStorage<OpenCall>();

/** Work that outlives the call has no deadline. A caller that has gone ends it at once. */
export function withCallDeadline<T>(
  deadlineMs: number,
  serve: () => Promise<T>,
  gone?: AbortSignal,
): Promise<T> {
  const call = { deadlineMs, isOpen: true, gone };
  const close = () => {
    call.isOpen = false;
  };
  return calls.run(call, () => {
    const served = serve();
    served.then(close, close);
    return served;
  });
}

/** The statements of one caller's calls hold one database connection at a time. */
const turns = new AsyncLocalStorage<string | undefined>();

export function withTurn<T>(key: string | undefined, work: () => Promise<T>): Promise<T> {
  return turns.run(key, work);
}

/** Undefined for work that outlives its call. */
export function callTurn(): string | undefined {
  return calls.getStore()?.isOpen === false ? undefined : turns.getStore();
}

/** Negative after the deadline or without a caller, undefined outside of a call. */
export function callTimeLeftMs(): number | undefined {
  const call = calls.getStore();
  if (call?.isOpen !== true) return undefined;
  return call.gone?.aborted ? Number.NEGATIVE_INFINITY : call.deadlineMs - Date.now();
}
