import type { FastifyRequest } from "fastify";
import type { AuditAction } from "#audit-client/stream/audit-actions.ts";
import type { AuditActor, AuditRecorder } from "#audit-client/stream/audit-entry.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import { networkOf } from "#kit/values/network-of.ts";
import { limitOf } from "#rate-limit/gcra.ts";
import { MemorySource } from "#rate-limit/memory-source.ts";
import { type Bucket, verdictOf } from "../limits/bucket.ts";
import { isMutating } from "../routing/route-policy.ts";
import { auditedCall } from "./audit.ts";
import { clientIp } from "./request/caller.ts";

const PER_USER = limitOf(10, 60_000);
const PER_NETWORK = limitOf(60, 60_000);
const IN_ALL = limitOf(600, 60_000);
const MAX_BUCKETS = 10_000;
/** By role, and without the token's key, which may have been stolen without it. */
const OF_VALID_TOKENS: ReadonlySet<string> = new Set([
  "forbidden",
  "role_not_defined",
  "user_required",
  "token_proof_missing",
  "token_proof_invalid",
]);
/** Action of read-only routes. */
const READ_ACTION: AuditAction = "call.refused";

/**
 * Records refusals by role, permission and proof of the token's key, and invalid tokens on mutating methods. Entries beyond a limit are counted only.
 * @param nowMs of a monotonic clock.
 */
export function createRecordRefusal(
  nextRecorder: () => AuditRecorder,
  metrics: Metrics,
  nowMs: () => number,
) {
  const source = new MemorySource(MAX_BUCKETS);
  const leftOut = metrics.counter(
    "gatehouse_audit_refusals_left_out_total",
    "Refused calls of known users that the audit log has no entry of, because there were too many.",
  );
  return (request: FastifyRequest, actor: AuditActor, httpStatus: number): void => {
    const { errorCode, policy, startedMs } = request.state;
    if (errorCode === null || (!OF_VALID_TOKENS.has(errorCode) && !isMutating(request.method))) return;
    const buckets = bucketsOf(actor, clientIp(request));
    const verdict = verdictOf(buckets, source.spend(buckets, nowMs()));
    try {
      if (verdict.refusedBy !== undefined) throw new Error("too many");
      nextRecorder().enqueue({
        ...auditedCall(request, policy?.action ?? READ_ACTION, actor),
        kind: "outcome",
        outcome: "failure",
        errorCode,
        httpStatus,
        latencyUs: Math.round((performance.now() - startedMs) * 1_000),
      });
    } catch {
      leftOut.inc();
    }
  };
}

function bucketsOf({ userId = "" }: AuditActor, ip: string): Bucket[] {
  return [
    { kind: "refusals of a user", name: userId, scope: "user", limit: PER_USER },
    { kind: "refusals of a network", name: networkOf(ip), scope: "address", limit: PER_NETWORK },
    { kind: "refusals", name: "", scope: "total", limit: IN_ALL },
  ];
}
