const FORM = /^1:([1-9]\d{0,18})$/;
const MAX_POSITION = 2n ** 63n - 1n;

/** Where the next page begins, as text that callers do not look into. */
export function encodeCursor(position: bigint): string {
  return Buffer.from(`1:${position}`).toString("base64url");
}

/** The position in a cursor, or undefined for anything that `encodeCursor` did not make. */
export function decodeCursor(cursor: string): bigint | undefined {
  const digits = FORM.exec(Buffer.from(cursor, "base64url").toString("latin1"))?.[1];
  if (digits === undefined) return undefined;
  const position = BigInt(digits);
  // Node skips what is not base64url; only the one spelling of a cursor is taken.
  return position <= MAX_POSITION && encodeCursor(position) === cursor ? position : undefined;
}
