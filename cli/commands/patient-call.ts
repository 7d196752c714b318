import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "@grpc/grpc-js";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { callUnary, type UnaryMethod } from "#kit/rpc/rpc-client.ts";
import { DomainError } from "#kit/values/errors.ts";

const CALL_BUDGET_MS = 10_000;
/** Without an answer: longer than a fail-over of a database, or than the audit log is behind. */
const PATIENCE_MS = 600_000;
const MAX_PAUSE_MS = 1_000;
/** One that is repeated is no accident of the transport. */
const MAX_DEFECTS = 3;
const PASSING: readonly string[] = ["busy", "service_unavailable", "audit_unavailable", "internal_error"];

export interface PatientClient<C extends Client> {
  client: C;
  /** Of every call, so that the service's log has the one that an error names. */
  requestId: string;
  /** Ends the waiting at once, also for a call that is under way. */
  signal: AbortSignal;
}

/** For calls that may be repeated. @throws {DomainError} its last one; the reason of the signal. */
export async function patiently<Q, R>(
  { client, requestId, signal }: PatientClient<Client>,
  method: UnaryMethod<Q, R>,
  request: Q,
): Promise<R> {
  const giveUpMs = performance.now() + PATIENCE_MS;
  let defects = 0;
  for (;;) {
    const context = { ...newCallContext({ budgetMs: CALL_BUDGET_MS }), requestId };
    try {
      return await unlessAborted(callUnary(client, method, request, context), signal);
    } catch (error) {
      if (!(error instanceof DomainError)) throw error;
      if (error.code === "internal_error") defects += 1;
      const isPassing = PASSING.includes(error.code) && defects < MAX_DEFECTS;
      if (!isPassing || performance.now() > giveUpMs) throw error;
      await unlessAborted(sleep(Math.min(error.retryAfterMs ?? MAX_PAUSE_MS, MAX_PAUSE_MS)), signal);
    }
  }
}

function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}
