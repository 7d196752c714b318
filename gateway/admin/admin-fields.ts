import { z } from "zod";
import { optional, pageFields, textField } from "../routing/fields.ts";

export const pageQuery = pageFields({ max: 100, pattern: /^([1-9]\d?|100)$/, standard: 50 });

/** identity-service checks the rest. */
export const reasonField = textField(1, 120, {
  id: "Reason",
  description:
    "Why, for the audit log, which never forgets it: one line without e-mail addresses, numbers of nine digits or more, " +
    "or secrets.",
  examples: ["Ticket 4711: lost phone"],
});

/** The body may be absent. */
export const ActBody = z
  .strictObject({ reason: optional(reasonField) })
  .meta({ id: "Act" })
  .default({});

const NO_CHANGE = "must contain at least one change";

/** A body of which every member may be absent, but not all. */
export function changeOf<Shape extends z.ZodRawShape>(shape: Shape) {
  return z
    .strictObject(shape)
    .partial()
    .refine((change) => Object.keys(change).length > 0, NO_CHANGE)
    .meta({ minProperties: 1 });
}

/** The same with a reason, which alone changes nothing. */
export function changeWithReason<Shape extends z.ZodRawShape>(shape: Shape) {
  const names = Object.keys(shape);
  return z
    .strictObject(shape)
    .partial()
    .extend({ reason: optional(reasonField) })
    .refine((change: Record<string, unknown>) => names.some((name) => change[name] !== undefined), NO_CHANGE)
    .meta({ minProperties: 1, dependentSchemas: { reason: { minProperties: 2 } } });
}
