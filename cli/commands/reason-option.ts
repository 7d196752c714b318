import type { CommandInput, CommandOption } from "../command.ts";

/** Of commands that act on a user or change a client. */
export const REASON_OPTION: Readonly<Record<"reason", CommandOption>> = {
  reason: {
    type: "string",
    value: "text",
    description: "why, for the audit log, which keeps it for ever: a ticket, not an address",
  },
};

export function reasonOf({ values }: Pick<CommandInput, "values">): string {
  return values.get("reason") ?? "";
}
