import { z } from "zod";
import { AUDIT_ACTIONS } from "#audit-client/stream/audit-actions.ts";
import type { LogPlace } from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { Outcome } from "#proto/gatehouse/audit/v1/entry.ts";
import { textField } from "../routing/fields.ts";
import { OUTCOMES, outcomeField } from "./audit-entry-answer.ts";

/** What was searched for is noted in the log, which forgets nothing. */
const text = textField(1, 200).regex(
  /^[^@]*$/,
  "must not have an @: search for a user's id, not for an address",
);

export const auditTimeField = z.iso
  .datetime({ offset: true, message: "must be an RFC 3339 time" })
  .transform((value) => new Date(value));

/** A canonical user id, or the name of a service or a certificate's person. */
const actor = z
  .union([
    z.uuid().toLowerCase(),
    z
      .string()
      .regex(
        /^(client|operator|auditor):[A-Za-z0-9._-]{1,64}$/,
        "must be a user's id, client:<id>, operator:<name> or auditor:<name>",
      ),
  ])
  .meta({ id: "AuditActor" });

/** What only reads, or repeats a check: in a busy log there is little else. */
const ROUTINE_ACTIONS: readonly string[] = [
  // An export leaves the system, and an erasure changes it.
  ...AUDIT_ACTIONS.reading.filter(
    (action) => action !== "audit.exported" && action !== "audit.address_erased",
  ),
  "auth.refresh",
];

export const auditFilterFields = {
  actor: actor.optional(),
  action: text.optional().meta({ description: "`auth.login`; `auth.` is all that begin so." }),
  resource: text.optional(),
  outcome: outcomeField.optional(),
  hide: z
    .enum(["routine"])
    .meta({
      id: "Hidden",
      description: `\`routine\` leaves out ${ROUTINE_ACTIONS.map((name) => `\`${name}\``).join(", ")}.`,
    })
    .optional(),
};

interface AuditFilter {
  actor?: string | undefined;
  action?: string | undefined;
  resource?: string | undefined;
  outcome?: z.output<typeof outcomeField> | undefined;
  hide?: "routine" | undefined;
}

/** As audit-service reads it. */
export function toEntryFilter(filter: AuditFilter) {
  const { actor: actorUserId = "", action = "", resource = "", outcome, hide } = filter;
  return {
    actorUserId,
    action,
    resource,
    withoutActions: hide === undefined ? [] : [...ROUTINE_ACTIONS],
    outcome: outcome === undefined ? Outcome.UNSPECIFIED : OUTCOMES[outcome],
  };
}

const MAX_LOG = 255;

/** The number of a log. */
export const logField = z
  .string()
  .regex(/^(0|[1-9]\d{0,2})$/, `must be a whole number from 0 to ${MAX_LOG}`)
  .transform(Number)
  .pipe(z.int().max(MAX_LOG))
  .default(0)
  // A number for clients, although a query is text.
  .meta({ type: "integer", pattern: undefined, minimum: 0, maximum: MAX_LOG, default: 0 });

const MAX_PLACE_LENGTH = `${MAX_LOG}:${Number.MAX_SAFE_INTEGER},`.length * (MAX_LOG + 1);

/** Where a follower of all logs is. */
export const placeField = textField(1, MAX_PLACE_LENGTH)
  .regex(/^\d+:\d+(,\d+:\d+)*$/, "must be places as 0:1042,1:77")
  .transform((text, context): LogPlace[] => {
    const places = text.split(",").map((part) => {
      const [log = 0, sequence = 0] = part.split(":").map(Number);
      return { log, sequence };
    });
    const logs = new Set(places.map(({ log }) => log));
    // Numbers with leading zeros, or that would be rounded.
    const isOther =
      placeText(places) !== text || places.some(({ sequence }) => !Number.isSafeInteger(sequence));
    if (isOther || logs.size < places.length || Math.max(...logs) > MAX_LOG)
      context.addIssue(`must name each log once, by its number from 0 to ${MAX_LOG}`);
    return places;
  })
  .optional()
  .meta({ description: "`place` of the answer before. `after` is then not read." });

/** As `placeField` reads it. */
export function placeText(places: readonly LogPlace[]): string {
  return places.map(({ log, sequence }) => `${log}:${sequence}`).join(",");
}

export function sequenceField(min: 0 | 1) {
  return (
    z
      .string()
      .regex(min === 0 ? /^(0|[1-9]\d{0,15})$/ : /^[1-9]\d{0,15}$/, `must be a whole number from ${min}`)
      .transform(Number)
      .pipe(z.int())
      // A number for clients, although a query is text.
      .meta({ type: "integer", pattern: undefined, minimum: min, maximum: Number.MAX_SAFE_INTEGER })
  );
}
