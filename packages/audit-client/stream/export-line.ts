import type {
  ExportEntriesResponse,
  ExportedEntry,
  ExportedLog,
} from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { type Entry, EntryKind, Outcome } from "#proto/gatehouse/audit/v1/entry.ts";

/** A line of an export, and an entry in it: docs/audit-log-format.md. */
export type ExportLine = ReturnType<typeof toLogLine> | ReturnType<typeof toEntryLine> | NoteLine;
export type LoggedEntry = ReturnType<typeof toLoggedEntry>;

interface NoteLine {
  type: "removal" | "checkpoint";
  note: string;
}

// Entries with values of later versions fail the verification.
const KINDS = new Map<EntryKind, string>([
  [EntryKind.UNSPECIFIED, "unspecified"],
  [EntryKind.INTENT, "intent"],
  [EntryKind.OUTCOME, "outcome"],
  [EntryKind.EVENT, "event"],
]);
const OUTCOMES = new Map<Outcome, string>([
  [Outcome.UNSPECIFIED, ""],
  [Outcome.SUCCESS, "success"],
  [Outcome.FAILURE, "failure"],
  [Outcome.UNKNOWN, "unknown"],
]);

export function toExportLine({ line }: ExportEntriesResponse): ExportLine {
  if (line === undefined) throw new Error("audit-service sent a line that this version does not know");
  if (line.$case === "log") return toLogLine(line.value);
  if (line.$case === "entry") return toEntryLine(line.value);
  return { type: line.$case, note: line.value.note };
}

export function toLoggedEntry(entry: Entry) {
  const { userId = "", role = "", sessionId = "", claimedEmailHash = "" } = entry.actor ?? {};
  return {
    v: 1,
    sequence: entry.sequence,
    id: entry.id,
    producer: entry.producer,
    kind: KINDS.get(entry.kind) ?? `kind ${entry.kind}`,
    callId: entry.callId,
    occurredAt: entry.occurredAt?.toISOString() ?? "",
    receivedAt: entry.receivedAt?.toISOString() ?? "",
    actor: { userId, role, sessionId, claimedEmailHash },
    clientIp: entry.clientIp,
    userAgent: entry.userAgent,
    method: entry.method,
    route: entry.route,
    resource: entry.resource,
    action: entry.action,
    requestId: entry.requestId,
    traceId: entry.traceId,
    outcome: OUTCOMES.get(entry.outcome) ?? `outcome ${entry.outcome}`,
    errorCode: entry.errorCode,
    reason: entry.reason,
    httpStatus: entry.httpStatus,
    latencyUs: entry.latencyUs,
  };
}

function toLogLine({ origin, firstSequence, lastSequence, treeHead, chainHash }: ExportedLog) {
  return {
    type: "log" as const,
    v: 1,
    origin,
    firstSequence,
    lastSequence,
    treeHead: treeHead.map(base64),
    chainHash: base64(chainHash),
  };
}

function toEntryLine({ entry, leafHash, chainHash, claimedEmailSalt }: ExportedEntry) {
  if (entry === undefined) throw new Error("audit-service sent a line without its entry");
  const address = entry.actor?.claimedEmail ?? "";
  const hasAddress = address !== "" || claimedEmailSalt.length > 0;
  return {
    type: "entry" as const,
    entry: toLoggedEntry(entry),
    leafHash: base64(leafHash),
    chainHash: base64(chainHash),
    ...(hasAddress && { claimedEmail: { salt: base64(claimedEmailSalt), address } }),
  };
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("base64");
}
