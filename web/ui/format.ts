import { nameDevice } from "#kit/values/name-device.ts";
import type { Language } from "./text.ts";

const MINUTE_MS = 60_000;
const STEPS = [
  ["minute", MINUTE_MS, 60 * MINUTE_MS],
  ["hour", 60 * MINUTE_MS, 24 * 60 * MINUTE_MS],
  ["day", 24 * 60 * MINUTE_MS, 30 * 24 * 60 * MINUTE_MS],
] as const;

/** As the reader's browser names the language, such as `en-GB`: the day comes before the month in some English. */
export const localeOf = (language: Language): string =>
  navigator.languages.find((tag) => `${tag}-`.startsWith(`${language}-`)) ?? language;

/** IANA name. */
export const ownTimeZone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone;

/** "3 hours ago"; older than a month, the date. @param time ISO 8601. */
export function sinceText(time: string, language: Language, nowMs = Date.now()): string {
  const agoMs = Math.max(0, nowMs - Date.parse(time));
  const step = STEPS.find(([, , below]) => agoMs < below);
  if (step === undefined) return dateText(time, language);
  const [unit, lengthMs] = step;
  // Days are counted by hours: "yesterday" would name another one than the calendar.
  const numeric = unit === "day" ? "always" : "auto";
  return new Intl.RelativeTimeFormat(language, { numeric }).format(-Math.floor(agoMs / lengthMs), unit);
}

export function dateText(time: string, language: Language): string {
  return new Intl.DateTimeFormat(localeOf(language), { dateStyle: "long" }).format(new Date(time));
}

/** "14:03:59"; of another day than today, with the date before it. */
export function timeText(time: string, language: Language, now = new Date()): string {
  const at = new Date(time);
  const dateStyle = at.toDateString() === now.toDateString() ? undefined : "medium";
  return new Intl.DateTimeFormat(localeOf(language), { dateStyle, timeStyle: "medium" }).format(at);
}

const MAX_CHARACTERS = 60;

/** As mails name it; of an unknown browser the text itself. */
export function deviceOf(userAgent: string): { browser: string; system: string } {
  const { browser, system } = nameDevice(userAgent);
  return { browser: browser || userAgent.slice(0, MAX_CHARACTERS), system };
}

/** As it is shown. */
export function fullName({ firstName, lastName }: { firstName: string; lastName: string }): string {
  return `${firstName} ${lastName}`.trim();
}

/** Characters that show nothing, or change how others are shown. `packages/service-kit/values/unseen.ts` has the same. */
export const UNSEEN_CLASS = String.raw`\p{C}\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}\u2800`;

/** Of spaces only a single ordinary one, between others, is seen as what it is: HTML collapses a row of them. */
const UNSEEN = new RegExp(`[${UNSEEN_CLASS}]|(?! )\\p{Zs}|(?<=^| ) | $`, "gu");

/** Text of strangers as it is: what would be invisible, or turn the text around, is named by its code point. */
export const visible = (text: string): string =>
  text.replace(
    UNSEEN,
    (character) =>
      `\u27e8U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`,
  );
