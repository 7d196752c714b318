import { z } from "zod";
import { AUDIT_ACTIONS } from "#audit-client/stream/audit-actions.ts";
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
const actor = z.union([
  z.uuid().toLowerCase(),
  z
    .string()
    .regex(
      /^(client|operator|auditor):[A-Za-z0-9._-]{1,64}$/,
      "must be a user's id, client:<id>, operator:<name> or auditor:<name>",
    ),
]);

/** What only reads, or repeats a check: in a busy log there is little else. */
const ROUTINE_ACTIONS: readonly string[] = [
  // An export leaves the system, and an erasure changes it.
  ...AUDIT_ACTIONS.reading.filter(
    (action) => action !== "audit.exported" && action !== "audit.address_erased",
  ),
  "auth.refresh",
  "token.introspect",
];

export const auditFilterFields = {
  actor: actor.optional(),
  action: text.optional().meta({ description: "`auth.login`; `auth.` is all that begin so." }),
  resource: text.optional(),
  outcome: outcomeField.optional(),
  hide: z
    .enum(["routine"])
    .optional()
    .meta({
      description: `\`routine\` leaves out ${ROUTINE_ACTIONS.map((name) => `\`${name}\``).join(", ")}.`,
    }),
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
