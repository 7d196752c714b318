import { AsyncLocalStorage } from "node:async_hooks";

interface OpenCall {
  /** Milliseconds of `Date.now()`. */
  deadlineMs: number;
  isOpen: boolean;
}

const calls = new AsyncLocalStorage<OpenCall>();

/** Work that outlives the call has no deadline. */
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

/** Negative after the deadline, undefined outside of a call. */
export function callTimeLeftMs(): number | undefined {
  const call = calls.getStore();
  return call?.isOpen === true ? call.deadlineMs - Date.now() : undefined;
}
