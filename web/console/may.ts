import type { Account } from "../session/session.ts";

/** Whether the person's role holds a permission. It covers those below it: `audit:read` covers `audit:read:user`. */
export const may = ({ permissions }: Account, permission: string): boolean =>
  permissions.some((held) => permission === held || permission.startsWith(`${held}:`));
