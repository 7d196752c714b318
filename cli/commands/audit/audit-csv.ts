import { stringify } from "csv-stringify/sync";
import type { ExportLine } from "../../audit-verifier/export-line.ts";

const COLUMNS = [
  "sequence",
  "id",
  "producer",
  "kind",
  "callId",
  "occurredAt",
  "receivedAt",
  "userId",
  "role",
  "sessionId",
  "claimedEmail",
  "clientIp",
  "userAgent",
  "method",
  "route",
  "resource",
  "action",
  "requestId",
  "traceId",
  "outcome",
  "errorCode",
  "reason",
  "httpStatus",
  "latencyUs",
  "leafHash",
];

export const CSV_HEAD = stringify([COLUMNS]);

/** RFC 4180. An apostrophe precedes texts that spreadsheets would run as formulas. */
export function csvOf(lines: readonly ExportLine[]): string {
  const records = lines.flatMap((line) => {
    if (line.type !== "entry") return [];
    const { entry, leafHash, claimedEmail } = line;
    return [{ ...entry, ...entry.actor, claimedEmail: claimedEmail?.address ?? "", leafHash }];
  });
  return stringify(records, { columns: COLUMNS, escape_formulas: true });
}
