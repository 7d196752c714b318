import { invalidField } from "#kit/values/errors.ts";
import {
  EntryKind,
  Outcome,
  type Actor as WireActor,
  Entry as WireEntry,
} from "#proto/gatehouse/audit/v1/entry.ts";
import type { Entry, PlacedEntry } from "./entry.ts";

const KINDS: Record<EntryKind, Entry["kind"]> = {
  [EntryKind.UNSPECIFIED]: "unspecified",
  [EntryKind.INTENT]: "intent",
  [EntryKind.OUTCOME]: "outcome",
  [EntryKind.EVENT]: "event",
};

const WIRE_KINDS: Record<Entry["kind"], EntryKind> = {
  unspecified: EntryKind.UNSPECIFIED,
  intent: EntryKind.INTENT,
  outcome: EntryKind.OUTCOME,
  event: EntryKind.EVENT,
};

const OUTCOMES: Record<Outcome, Entry["outcome"]> = {
  [Outcome.UNSPECIFIED]: "",
  [Outcome.SUCCESS]: "success",
  [Outcome.FAILURE]: "failure",
  [Outcome.UNKNOWN]: "unknown",
};

const WIRE_OUTCOMES: Record<Entry["outcome"], Outcome> = {
  "": Outcome.UNSPECIFIED,
  success: Outcome.SUCCESS,
  failure: Outcome.FAILURE,
  unknown: Outcome.UNKNOWN,
};

/** Enum values of newer versions become "unspecified" or "unknown". */
export function fromWireEntry(wire: WireEntry): Entry {
  return {
    id: wire.id,
    kind: KINDS[wire.kind] ?? "unspecified",
    callId: wire.callId,
    occurredAt: wire.occurredAt ?? new Date(Number.NaN),
    actor: fromWireActor(wire.actor),
    clientIp: wire.clientIp,
    userAgent: wire.userAgent,
    method: wire.method,
    route: wire.route,
    resource: wire.resource,
    action: wire.action,
    requestId: wire.requestId,
    traceId: wire.traceId,
    outcome: OUTCOMES[wire.outcome] ?? "unknown",
    errorCode: wire.errorCode,
    reason: wire.reason,
    httpStatus: wire.httpStatus,
    latencyUs: wire.latencyUs,
  };
}

export function toWireEntry(entry: PlacedEntry): WireEntry {
  return { ...entry, kind: WIRE_KINDS[entry.kind], outcome: WIRE_OUTCOMES[entry.outcome] };
}

function fromWireActor({
  userId = "",
  role = "",
  sessionId = "",
  claimedEmail = "",
}: Partial<WireActor> = {}) {
  return { userId, role, sessionId, claimedEmail };
}

export function emptyWireEntry(): WireEntry {
  return WireEntry.decode(new Uint8Array());
}

/** @throws {DomainError} `validation_failed` for an unknown value. */
export function fromWireOutcome(outcome: Outcome): Exclude<Entry["outcome"], ""> | undefined {
  const known = OUTCOMES[outcome];
  if (known === undefined) throw invalidField("outcome", "invalid_value", "is not an outcome");
  return known === "" ? undefined : known;
}
