import type { en as sharedEn } from "../ui/languages/en.ts";
import { type KeysOf, type LoadTexts, textOf, useLanguage, type Values } from "../ui/text.ts";
import type { en } from "./languages/en.ts";

export type TextKey = KeysOf<typeof en> | KeysOf<typeof sharedEn>;
type Translate = (key: TextKey, values?: Values) => string;

/** One file each. */
export const loadTexts: LoadTexts = async (language) => {
  if (language === "de") {
    const [shared, own] = await Promise.all([import("../ui/languages/de.ts"), import("./languages/de.ts")]);
    return { ...shared.de, ...own.de };
  }
  const [shared, own] = await Promise.all([import("../ui/languages/en.ts"), import("./languages/en.ts")]);
  return { ...shared.en, ...own.en };
};

/** Renders again when the language changes. */
export function useText(): Translate {
  useLanguage();
  return textOf;
}
