import type { AuditEventRecorder } from "#audit-client/stream/audit-entry.ts";
import { traceIdOf } from "#kit/rpc/call-context.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import type { LoginDeps } from "./login-deps.ts";

const TIMEOUT_MS = 30_000;

/**
 * In bounded memory: with rows, attackers could fill the database. A crash loses only the reasons, because the
 * gateway records the calls.
 */
export function createNoteFailedLogin(
  recorder: AuditEventRecorder,
  deps: { now: () => Date; newId: () => string; metrics: Metrics },
): LoginDeps["noteFailedLogin"] {
  const lost = deps.metrics.counter(
    "gatehouse_failed_logins_not_recorded_total",
    "Failed logins whose reason was not recorded in the audit log.",
  );
  const refusals = deps.metrics.counter(
    "gatehouse_login_refusals_total",
    "Logins refused after the password check, by the reason, which clients do not see.",
    ["reason"],
  );
  return ({ userId = "", reason, code, clientIp, userAgent }, context) => {
    refusals.inc({ reason });
    const event = {
      kind: "event",
      id: deps.newId(),
      occurredAt: deps.now(),
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
