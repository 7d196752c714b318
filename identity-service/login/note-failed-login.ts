import type { AuditEventRecorder } from "../../audit-client/audit-entry.ts";
import { traceIdOf } from "../../service-kit/call-context.ts";
import type { Metrics } from "../../service-kit/metrics.ts";
import type { LogInDeps } from "./log-in.ts";

const TIMEOUT_MS = 30_000;

/**
 * Buffers in bounded memory, because a table row each would let attackers write to the database. A crash loses only the
 * reasons, as the gateway records the calls itself.
 */
export function createNoteFailedLogin(
  recorder: Pick<AuditEventRecorder, "recordEvent">,
  deps: { now: () => Date; newId: () => string; metrics: Metrics },
): LogInDeps["noteFailedLogin"] {
  const lost = deps.metrics.counter(
    "gatehouse_failed_logins_not_recorded_total",
    "Failed logins whose reason did not get into the audit log.",
  );
  const refusals = deps.metrics.counter(
    "gatehouse_login_refusals_total",
    "Logins refused after the password was looked at, by the reason that the client is not told.",
    ["reason"],
  );
  return ({ userId = "", reason, code, clientIp, userAgent }, context) => {
    refusals.inc({ reason });
    const event = {
      kind: "event",
      id: deps.newId(),
      occurredAt: deps.now(),
      // The actor is unknown.
      actor: {},
      clientIp,
      userAgent,
      resource: userId,
      action: "user.login_failed",
      reason,
      requestId: context.requestId,
      traceId: traceIdOf(context),
      outcome: "failure",
      errorCode: code,
    } as const;
    recorder.recordEvent(event, Date.now() + TIMEOUT_MS).catch(() => lost.inc());
  };
}
