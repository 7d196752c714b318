const MAX_CHARACTERS = 200;
/** Printable, without what needs an escape in JSON or a header. */
const CHARACTERS = /^[\x21\x23-\x5b\x5d-\x7e]+$/;
const NAME = /^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$/;

/** A name, or with a colon a URI without a fragment: StringOrURI (RFC 7519 §2, RFC 8707 §2). Compared byte by byte. */
export function isAudience(text: string): boolean {
  if (text.length > MAX_CHARACTERS || !CHARACTERS.test(text)) return false;
  return text.includes(":") ? URL.canParse(text) && !text.includes("#") : NAME.test(text);
}

export const AUDIENCE_FORM = `must be a URI or a name such as payments, of at most ${MAX_CHARACTERS} characters`;

/** Also in another spelling, because some readers compare URLs as browsers do. */
export function isSameAudience(one: string, other: string): boolean {
  return canonical(one) === canonical(other);
}

function canonical(text: string): string {
  if (!URL.canParse(text)) return text;
  const { href } = new URL(text);
  return href.endsWith("/") ? href.slice(0, -1) : href;
}
