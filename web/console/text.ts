import { hasText, type KeysOf, type LoadTexts, textOf, useLanguage, type Values } from "../ui/text.ts";
import type { texts } from "./languages/en.ts";

export type TextKey = KeysOf<typeof texts>;
type Translate = (key: TextKey, values?: Values) => string;

/** One file each. */
export const loadTexts: LoadTexts = async (language) => {
  if (language === "de") return (await import("./languages/de.ts")).texts;
  return (await import("./languages/en.ts")).texts;
};

/** Renders again when the language changes. */
export function useText(): Translate {
  useLanguage();
  return textOf;
}

/** The text of a name that the API uses; of a later version, the name itself. */
export function useKnownText(): (group: string, name: string) => string {
  useLanguage();
  return (group, name) => (hasText(`${group}.${name}`) ? textOf(`${group}.${name}`) : name);
}
