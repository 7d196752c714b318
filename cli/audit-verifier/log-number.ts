import { renamedKey, type VerifierKey } from "./signed-note.ts";

const ENDING = /^\/([1-9]\d{0,2})$/;
const MAX_LOG = 255;

/** Number of the log with this origin: 0 for that of the keys, n for `<origin>/<n>`. Undefined: another log. */
export function logNumberOf(origin: string, keys: readonly VerifierKey[]): number | undefined {
  const name = keys[0]?.name ?? "";
  if (origin === name) return 0;
  const [, digits] = (origin.startsWith(name) && ENDING.exec(origin.slice(name.length))) || [];
  return Number(digits) <= MAX_LOG ? Number(digits) : undefined;
}

export function originOf(log: number, keys: readonly VerifierKey[]): string {
  const name = keys[0]?.name ?? "";
  return log === 0 ? name : `${name}/${log}`;
}

/** @param keys Of log 0: all logs are signed with one key, under their origins as names. */
export function keysOf(log: number, keys: readonly VerifierKey[]): readonly VerifierKey[] {
  return log === 0 ? keys : keys.map((key) => renamedKey(key, originOf(log, keys)));
}
