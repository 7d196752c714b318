/** A token in the one form that we accept: see `parseCompactJws`. */
export interface CompactJws {
  header: { alg: string; typ: string; kid: string };
  payload: Record<string, unknown>;
  /** The text as presented. */
  text: string;
}

/** Which check refused a token. For the log and the metrics; never for the client. */
export type FormFailure = "length" | "form" | "header";

/** A SHA-256 thumbprint (RFC 7638) in base64url. Checked before anybody looks for such a key. */
const KEY_ID = /^[A-Za-z0-9_-]{43}$/;

/** Whether a text has the form of a key's name. */
export function isKeyId(text: string): boolean {
  return KEY_ID.test(text);
}

const MAX_TOKEN_CHARACTERS = 4_096;
const HEADER_MEMBERS = new Set(["alg", "typ", "kid"]);

/**
 * Takes a JWS Compact Serialization (RFC 7515 §7.1) apart, accepting exactly what our own signer can have made:
 * three canonical base64url segments (RFC 4648 §5, no padding, unused bits zero) and JSON as `JSON.stringify`
 * writes it, which leaves no room for duplicate members or other spellings. The header has `alg`, `typ` and
 * `kid` and nothing else: `jwk`, `jku`, `x5c`, `crit` and their kind are refused, not ignored.
 */
export function parseCompactJws(text: string): CompactJws | FormFailure {
  if (text.length > MAX_TOKEN_CHARACTERS) return "length";
  const segments = text.split(".");
  const [header, payload, signature] = segments.map(decodeSegment);
  if (segments.length !== 3 || header === undefined || payload === undefined || signature === undefined)
    return "form";
  const headerObject = parseCanonicalObject(header);
  if (headerObject === undefined || !isHeader(headerObject)) return "header";
  const payloadObject = parseCanonicalObject(payload);
  if (payloadObject === undefined) return "form";
  return { header: headerObject, payload: payloadObject, text };
}

function decodeSegment(segment: string): Buffer | undefined {
  const bytes = Buffer.from(segment, "base64url");
  return bytes.length > 0 && bytes.toString("base64url") === segment ? bytes : undefined;
}

function parseCanonicalObject(bytes: Buffer): Record<string, unknown> | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    const value: unknown = JSON.parse(text);
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    return isObject && JSON.stringify(value) === text ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined; // not UTF-8 or not JSON: refused like any other spelling
  }
}

function isHeader(value: Record<string, unknown>): value is CompactJws["header"] {
  const names = Object.keys(value);
  return (
    names.length === HEADER_MEMBERS.size &&
    names.every((name) => HEADER_MEMBERS.has(name) && typeof value[name] === "string")
  );
}
