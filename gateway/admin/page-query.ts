import { z } from "zod";
import { optional, textField } from "../routing/fields.ts";

export const pageQuery = {
  cursor: optional(
    textField(1, 512, {
      description: "`nextCursor` of the page before.",
      examples: ["MTA0Mg"],
    }),
  ),
  limit: z
    .string()
    .regex(/^([1-9]\d?|100)$/, "must be a whole number from 1 to 100")
    .transform(Number)
    .default(50)
    // A number for clients, although a query is text.
    .meta({ type: "integer", pattern: undefined, minimum: 1, maximum: 100, default: 50 }),
};
