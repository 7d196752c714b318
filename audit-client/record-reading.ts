import { v7 as uuidv7 } from "uuid";
import { type CallContext, traceIdOf } from "../service-kit/call-context.ts";
import { canonicalEmail } from "../service-kit/canonical-email.ts";
import type { AuditEventRecorder } from "./audit-entry.ts";
import { personActor } from "./person-actor.ts";

/** What an operator or auditor asked to see. */
export interface Reading {
  /** `user.read` */
  action: string;
  /** Whose or which, where it is one. */
  resource?: string;
  /** The filter: ids and fixed words, nothing personal. */
  filter?: string;
  /** An address that was looked for. Erasable, as claimed addresses are. */
  address?: string;
}

/** @throws {DomainError} `audit_unavailable`: who cannot be noted is not answered. */
export type RecordReading = (context: CallContext, reading: Reading) => Promise<void>;

/**
 * Notes in the audit log what operators and auditors read, before they are answered: one entry a call, not one a row.
 * Calls of services are noted by those.
 */
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

/** `role=ADMIN limit=20`, of what narrows it. */
export function filterText(fields: Readonly<Record<string, string | number | Date | undefined>>): string {
  return Object.entries(fields)
    .filter(([, value]) => value !== undefined && value !== "")
    .map(([name, value]) => `${name}=${value instanceof Date ? value.toISOString() : value}`)
    .join(" ");
}

/** What was typed to find a user: an address in its one spelling, which can be erased from the log, or how much it was. */
export function lookedFor(query: string): { address?: string; queryCharacters?: number } {
  if (query === "") return {};
  if (!/^[^@\s]+@[^@\s]+$/.test(query)) return { queryCharacters: query.length };
  return { address: canonicalEmail(query) ?? query };
}
