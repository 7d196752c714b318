import { type KeysOf, type LoadTexts, textOf, useLanguage, type Values, withTexts } from "../ui/text.ts";
import type { texts } from "./languages/en.ts";
import type { laterEn } from "./languages/later-en.ts";

export type TextKey = KeysOf<typeof texts & typeof laterEn>;
type Translate = (key: TextKey, values?: Values) => string;

/** One file each. */
export const loadTexts: LoadTexts = async (language) => {
  if (language === "de") return (await import("./languages/de.ts")).texts;
  return (await import("./languages/en.ts")).texts;
};

const loadLater: LoadTexts = async (language) => {
  if (language === "de") return (await import("./languages/later-de.ts")).laterDe;
  return (await import("./languages/later-en.ts")).laterEn;
};

/** Every page but the login has further texts. */
export const later = <Page>(load: () => Promise<Page>) => withTexts(loadLater, load);

/** Renders again when the language changes. */
export function useText(): Translate {
  useLanguage();
  return textOf;
}
