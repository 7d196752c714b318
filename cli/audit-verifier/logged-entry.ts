/** Absent values are `""` and 0. */
export interface LoggedEntry {
  v: number;
  sequence: number;
  id: string;
  producer: string;
  kind: string;
  callId: string;
  occurredAt: string;
  receivedAt: string;
  actor: { userId: string; role: string; sessionId: string; claimedEmailHash: string };
  clientIp: string;
  userAgent: string;
  method: string;
  route: string;
  resource: string;
  action: string;
  requestId: string;
  traceId: string;
  outcome: string;
  errorCode: string;
  reason: string;
  httpStatus: number;
  latencyUs: number;
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const FORMS = {
  id: /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/,
  kind: /^(?:intent|outcome|event|unspecified)$/,
  occurredAt: TIME,
  receivedAt: TIME,
  outcome: /^(?:success|failure|unknown)?$/,
} as const;
const STRINGS = [
  "id",
  "producer",
  "kind",
  "callId",
  "occurredAt",
  "receivedAt",
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
] as const;
const NUMBERS = ["v", "sequence", "httpStatus", "latencyUs"] as const;
const ACTOR = ["userId", "role", "sessionId", "claimedEmailHash"] as const;
const MEMBERS = STRINGS.length + NUMBERS.length + 1;

/** The result continues "Entry 7 …". */
export function entryProblem(entry: LoggedEntry): string | undefined {
  if (typeof entry !== "object" || entry === null) return "is not an object";
  for (const name of STRINGS) if (typeof entry[name] !== "string") return `has no valid ${name}`;
  for (const name of NUMBERS) if (!isCount(entry[name])) return `has no valid ${name}`;
  const { actor } = entry;
  if (typeof actor !== "object" || actor === null) return "has no valid actor";
  for (const name of ACTOR) if (typeof actor[name] !== "string") return `has no valid actor.${name}`;
  if (Object.keys(entry).length !== MEMBERS || Object.keys(actor).length !== ACTOR.length)
    return "has unknown members";
  if (entry.v !== 1) return `has the unknown version ${entry.v}`;
  for (const name of Object.keys(FORMS) as (keyof typeof FORMS)[])
    if (!FORMS[name].test(entry[name])) return `has no valid ${name}`;
  if (!/^(?:[0-9a-f]{64})?$/.test(actor.claimedEmailHash)) return "has no valid actor.claimedEmailHash";
  return undefined;
}

/** Canonical JSON (RFC 8785). @returns undefined for ill-formed Unicode (RFC 8785 §3.2.2.2). */
export function leafDataOf(entry: LoggedEntry): string | undefined {
  const { actor } = entry;
  const data = JSON.stringify({
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
    occurredAt: entry.occurredAt,
    outcome: entry.outcome,
    producer: entry.producer,
    reason: entry.reason,
    receivedAt: entry.receivedAt,
    requestId: entry.requestId,
    resource: entry.resource,
    route: entry.route,
    sequence: entry.sequence,
    traceId: entry.traceId,
    userAgent: entry.userAgent,
    v: entry.v,
  });
  // Lone surrogates are escaped, so only texts with an escape need the check.
  if (data.includes("\\u") && !isWellFormed(entry)) return undefined;
  return data;
}

function isWellFormed(entry: LoggedEntry): boolean {
  return (
    STRINGS.every((name) => entry[name].isWellFormed()) &&
    ACTOR.every((name) => entry.actor[name].isWellFormed())
  );
}

/** Excludes -0, which is written as 0. */
function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0 && !Object.is(value, -0);
}
