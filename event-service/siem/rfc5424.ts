import type { WholeEntry } from "../stream/audit-log-client.ts";

/** 32473 is the enterprise number that RFC 5612 reserves for documentation: Gatehouse has none of its own. */
const SD_ID = "gatehouse@32473";
/** RFC 5424 section 6.2.1. */
const FACILITY_LOG_AUDIT = 13;
const SEVERITY = { warning: 4, informational: 6 } as const;
const BOM = "\u{feff}";

/** RFC 5424, with the octet count of RFC 5425 section 4.3 before it. */
export function toSyslogFrame(entry: WholeEntry, hostname: string): string {
  const severity = entry.outcome === "failure" ? SEVERITY.warning : SEVERITY.informational;
  const header = [
    `<${FACILITY_LOG_AUDIT * 8 + severity}>1`,
    timestamp(entry.occurredAt),
    headerField(hostname, 255),
    "gatehouse",
    headerField(entry.producer, 128),
    headerField(entry.action, 32),
  ].join(" ");
  const message = `${header} ${structuredData(entry)} ${BOM}${JSON.stringify(entry)}`;
  return `${Buffer.byteLength(message)} ${message}`;
}

/** Section 6.2.3: a year has four digits. */
function timestamp(text: string): string {
  return /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z$/.test(text) ? text : "-";
}

function headerField(value: string, maxLength: number): string {
  return value.replace(/[^\x21-\x7e]/gu, "?").slice(0, maxLength) || "-";
}

/** Section 6.3. Without those that an entry does not have. */
function structuredData(entry: WholeEntry): string {
  const { log, sequence, id, kind, action, outcome, resource, actor } = entry;
  const required = { log, sequence, id, kind, action, outcome };
  const optional = {
    ...{ resource, userId: actor.userId, role: actor.role, sessionId: actor.sessionId },
    ...{ clientIp: entry.clientIp, errorCode: entry.errorCode, callId: entry.callId },
    ...{ requestId: entry.requestId, traceId: entry.traceId },
  };
  const present = Object.entries(optional).filter(([, value]) => value !== "");
  const parameters = [...Object.entries(required), ...present].map(
    ([name, value]) => ` ${name}="${escapeValue(String(value))}"`,
  );
  return `[${SD_ID}${parameters.join("")}]`;
}

/** Section 6.3.3. Control characters, which can look like another message (section 8.2), are left to the JSON. */
function escapeValue(value: string): string {
  return value
    .toWellFormed()
    .replace(/\p{Cc}/gu, "?")
    .replace(/["\\\]]/g, "\\$&");
}
