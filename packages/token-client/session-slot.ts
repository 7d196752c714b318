/** Sessions of a user have one slot, and a part of the database has all sessions of a slot (docs/decisions/parts.md). */
export const SLOTS = 4_096;

/** 0 to 4095: the last three hexadecimal digits of the session's id. 0 for a text that has none. */
export function slotOfSession(sessionId: string): number {
  const digits = sessionId.slice(-3);
  return /^[0-9a-f]{3}$/i.test(digits) ? Number.parseInt(digits, 16) : 0;
}
