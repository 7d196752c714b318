import { hash } from "node:crypto";
import type { LogEntry } from "../entries/entry.ts";

export const FIRST_CHAIN_HASH: Buffer = Buffer.alloc(32);

/** RFC 8785 canonical JSON (docs/audit-log-format.md): `JSON.stringify` of well-formed text, with sorted keys. */
export function leafData(entry: LogEntry): string {
  const { actor } = entry;
  return JSON.stringify({
    action: entry.action,
    actor: {
      claimedEmailHash: actor.claimedEmailHash,
      role: actor.role,
      sessionId: actor.sessionId,
      userId: actor.userId,
    },
    callId: entry.callId,
    clientIp: entry.clientIp,
    errorCode: entry.errorCode,
    httpStatus: entry.httpStatus,
    id: entry.id,
    kind: entry.kind,
    latencyUs: entry.latencyUs,
    method: entry.method,
    occurredAt: entry.occurredAt.toISOString(),
    outcome: entry.outcome,
    producer: entry.producer,
    reason: entry.reason,
    receivedAt: entry.receivedAt.toISOString(),
    requestId: entry.requestId,
    resource: entry.resource,
    route: entry.route,
    sequence: entry.sequence,
    traceId: entry.traceId,
    userAgent: entry.userAgent,
    v: 1,
  });
}

/** SHA-256(previous chain hash ‖ leaf hash). */
export function chainHash(before: Uint8Array, leafHash: Uint8Array): Buffer {
  return hash("sha256", Buffer.concat([before, leafHash]), "buffer");
}
