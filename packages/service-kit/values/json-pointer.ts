/** Without the empty pointer, which is the whole document. */
const POINTER = /^(?:\/(?:[^~/]|~[01])*)+$/;
const INDEX = /^(?:0|[1-9][0-9]*)$/;

/** @see RFC 6901 §3. */
export function isJsonPointer(text: string): boolean {
  return POINTER.test(text) && text.isWellFormed();
}

/** The unescaped reference tokens (RFC 6901 §4). */
export function pointerTokens(pointer: string): string[] {
  const escaped = pointer.split("/").slice(1);
  return escaped.map((token) => token.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** The member or element of this name, or undefined. */
export function memberOf(value: unknown, token: string): unknown {
  if (typeof value !== "object" || value === null) return undefined;
  if (Array.isArray(value)) return INDEX.test(token) ? value[Number(token)] : undefined;
  return Object.hasOwn(value, token) ? (value as Record<string, unknown>)[token] : undefined;
}
