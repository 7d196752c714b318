import { AsyncLocalStorage } from "node:async_hooks";

interface OpenCall {
  /** In milliseconds of `Date.now()`. */
  deadlineMs: number;
  isOpen: boolean;
}

const calls = new AsyncLocalStorage<OpenCall>();

/**
 * Serves a call. Until it has settled, what it does can ask for its deadline. Work that the call started and that goes
 * on after it (a worker that it woke) is not bound by it.
 *
 * @param deadlineMs in milliseconds of `Date.now()`.
 */
export function withCallDeadline<T>(deadlineMs: number, serve: () => Promise<T>): Promise<T> {
  const call = { deadlineMs, isOpen: true };
  const close = () => {
    call.isOpen = false;
  };
  return calls.run(call, () => {
    const served = serve();
    served.then(close, close);
    return served;
  });
}

/** How long the caller still waits, in milliseconds; negative if it has gone, undefined outside of a call. */
export function callTimeLeftMs(): number | undefined {
  const call = calls.getStore();
  return call?.isOpen === true ? call.deadlineMs - Date.now() : undefined;
}
