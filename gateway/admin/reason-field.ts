import { textField } from "../routing/fields.ts";

/** identity-service checks the rest. */
export const reasonField = textField(1, 120, {
  description:
    "Why, for the audit log, which never forgets it: one line without e-mail addresses, numbers of nine digits or more, " +
    "or secrets.",
  examples: ["Ticket 4711: lost phone"],
});
