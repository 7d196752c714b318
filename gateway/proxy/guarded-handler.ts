import type { Dispatcher } from "undici";
import { DomainError } from "#kit/values/errors.ts";

interface UpstreamHandler extends Dispatcher.DispatchHandler {
  /** Answers with the error, or breaks off a started answer. */
  fail(error: DomainError): void;
}

/** undici would take what a callback throws for a failure of the upstream. */
export function guarded(handler: UpstreamHandler): Dispatcher.DispatchHandler {
  const guard =
    <A extends unknown[]>(callback: ((...args: A) => void) | undefined) =>
    (...args: A): void => {
      try {
        callback?.apply(handler, args);
      } catch (cause) {
        handler.fail(new DomainError("upstream_unavailable", undefined, { cause }));
      }
    };
  return {
    onRequestStart: guard(handler.onRequestStart),
    onRequestUpgrade: guard(handler.onRequestUpgrade),
    onResponseStart: guard(handler.onResponseStart),
    onResponseData: guard(handler.onResponseData),
    onResponseEnd: guard(handler.onResponseEnd),
    onResponseError: guard(handler.onResponseError),
  };
}
