import { v7 as uuidv7 } from "uuid";
import { type CallContext, traceIdOf } from "#kit/rpc/call-context.ts";
import { canonicalEmail } from "#kit/values/canonical-email.ts";
import type { AuditEventRecorder } from "./audit-entry.ts";
import { personActor } from "./person-actor.ts";

export interface Reading {
  action: string;
  resource?: string;
  /** Must not contain personal data. */
  filter?: string;
  /** Can be erased from the log. */
  address?: string;
}

/** @throws {DomainError} `audit_unavailable`. The call must then fail. */
export type RecordReading = (context: CallContext, reading: Reading) => Promise<void>;

/** Records only calls of operators and auditors. */
export function createReadingRecorder(
  recorder: Pick<AuditEventRecorder, "recordEvent">,
  now: () => Date,
): RecordReading {
  return async (context, { action, resource, filter, address }) => {
    if (context.person === undefined) return;
    const actor = { ...personActor(context.person), ...(address !== undefined && { claimedEmail: address }) };
    await recorder.recordEvent(
      {
        kind: "event",
        id: uuidv7(),
        occurredAt: now(),
        actor,
        action,
        resource: resource ?? "",
        clientIp: "",
        userAgent: "",
        ...(filter !== undefined && { reason: filter }),
        requestId: context.requestId,
        traceId: traceIdOf(context),
        outcome: "success",
      },
      context.deadlineMs,
    );
  };
}

/** `name=value`. A value that is no plain word is a string of JSON, so that it cannot be read as another filter. */
export function filterText(fields: Readonly<Record<string, string | number | Date | undefined>>): string {
  return Object.entries(fields)
    .filter(([, value]) => value !== undefined && value !== "")
    .map(([name, value]) => `${name}=${value instanceof Date ? value.toISOString() : wordOf(String(value))}`)
    .join(" ");
}

const WORD = /^[\w.:/-]+$/;

function wordOf(value: string): string {
  return WORD.test(value) ? value : JSON.stringify(value);
}

/** Returns a canonical address, or the length of any other query. */
export function lookedFor(query: string): { address?: string; queryCharacters?: number } {
  if (query === "") return {};
  if (!/^[^@\s]+@[^@\s]+$/.test(query)) return { queryCharacters: query.length };
  return { address: canonicalEmail(query) ?? query };
}
