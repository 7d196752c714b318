import { createHash } from "node:crypto";
import canonicalize from "canonicalize";
import type { LogEntry } from "../entries/entry.ts";

export const FIRST_CHAIN_HASH: Buffer = Buffer.alloc(32);

/** RFC 8785 canonical JSON (docs/audit-log-format.md). */
export function leafData(entry: LogEntry): string {
  const { actor } = entry;
  const text = canonicalize({
    v: 1,
    sequence: entry.sequence,
    id: entry.id,
    producer: entry.producer,
    kind: entry.kind,
    callId: entry.callId,
    occurredAt: entry.occurredAt.toISOString(),
    receivedAt: entry.receivedAt.toISOString(),
    actor: {
      userId: actor.userId,
      role: actor.role,
      sessionId: actor.sessionId,
      claimedEmailHash: actor.claimedEmailHash,
    },
    clientIp: entry.clientIp,
    userAgent: entry.userAgent,
    method: entry.method,
    route: entry.route,
    resource: entry.resource,
    action: entry.action,
    requestId: entry.requestId,
    traceId: entry.traceId,
    outcome: entry.outcome,
    errorCode: entry.errorCode,
    reason: entry.reason,
    httpStatus: entry.httpStatus,
    latencyUs: entry.latencyUs,
  });
  if (text === undefined) throw new Error("an entry has no canonical form");
  return text;
}

/** SHA-256(previous chain hash ‖ leaf hash). */
export function chainHash(before: Uint8Array, leafHash: Uint8Array): Buffer {
  return createHash("sha256").update(before).update(leafHash).digest();
}
