import type { RpcContext } from "#kit/rpc/rpc-admission.ts";
import { callTimeLeftMs } from "#kit/values/call-deadline.ts";
import { createTurns, tooManyAtOnce } from "#kit/values/turns.ts";

/** Of one reader, for each kind. */
const AT_ONCE = 2;
/** A statement lasts two seconds at most; the caller's deadline may come first. */
const MAX_WAIT_MS = 10_000;

/** A kind never waits for another: a slow search must not make a tail report a log as away. */
type Kind = "export" | "follow" | "read";

/**
 * Each read holds one database connection of a log, so that one reader leaves connections to the others. A reader is a
 * user, or a person with a certificate; the calls of services do not wait.
 */
export interface ReaderTurns {
  /** Returns the release function. @throws {DomainError} `service_unavailable`. */
  take(kind: Kind, context: RpcContext): Promise<() => void>;
  /** The method within a turn. */
  within<Q, A>(
    kind: Kind,
    method: (request: Q, context: RpcContext) => Promise<A>,
  ): (request: Q, context: RpcContext) => Promise<A>;
}

export function createReaderTurns(): ReaderTurns {
  const turns = createTurns({ atOnce: AT_ONCE, maxWaitMs: MAX_WAIT_MS, refuse: tooManyAtOnce });
  async function take(kind: Kind, { person, actor }: RpcContext): Promise<() => void> {
    const reader = person ?? actor?.userId;
    if (reader === undefined) return () => undefined;
    return turns.take(`${kind} ${reader}`, callTimeLeftMs() ?? MAX_WAIT_MS);
  }
  return {
    take,
    within: (kind, method) => async (request, context) => {
      const release = await take(kind, context);
      try {
        return await method(request, context);
      } finally {
        release();
      }
    },
  };
}
