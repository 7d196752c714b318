const MAX_TAG_CHARACTERS = 35;
const MAX_ZONE_CHARACTERS = 64;
const MAX_HEADER_CHARACTERS = 256;

/** Canonical BCP 47 tag without extensions: `pt-br` is `pt-BR`. Undefined for another text, and for a tag above 35 characters. */
export function languageTag(text: string): string | undefined {
  if (text.length > MAX_TAG_CHARACTERS) return undefined;
  try {
    const tag = new Intl.Locale(text).baseName;
    return tag.length > MAX_TAG_CHARACTERS || tag === "und" ? undefined : tag;
  } catch {
    return undefined;
  }
}

/** The tag and those that say less, most exact first (RFC 4647 §3.4): `pt-BR`, `pt`. */
export function lookupTags(tag: string): string[] {
  const parts = tag.split("-");
  return parts.map((_, index) => parts.slice(0, parts.length - index).join("-"));
}

/** IANA name as this runtime spells it. Undefined for another text, also for an offset. */
export function timeZoneName(text: string): string | undefined {
  if (text.length > MAX_ZONE_CHARACTERS || !/^[A-Za-z]/.test(text)) return undefined;
  try {
    return new Intl.DateTimeFormat("en", { timeZone: text }).resolvedOptions().timeZone;
  } catch {
    return undefined;
  }
}

/** The language that `Accept-Language` prefers. Undefined if it names none. */
export const preferredLanguage = (header: string): string | undefined => acceptedLanguages(header)[0];

/** What `Accept-Language` names, the most wanted first (RFC 9110 §12.5.4). */
export function acceptedLanguages(header: string): string[] {
  const ranges = header
    .slice(0, MAX_HEADER_CHARACTERS)
    .split(",")
    .map((range) => {
      const [text = "", ...parameters] = range.split(";").map((part) => part.trim());
      const weight = parameters.find((parameter) => /^q=/i.test(parameter))?.slice(2) ?? "1";
      return { tag: languageTag(text), weight: /^[01](?:\.\d{0,3})?$/.test(weight) ? Number(weight) : 0 };
    });
  return ranges
    .filter(({ weight }) => weight > 0)
    .sort((a, b) => b.weight - a.weight)
    .flatMap(({ tag = [] }) => tag);
}
