import { type KeysOf, type LoadTexts, textOf, useLanguage, type Values, withTexts } from "../ui/text.ts";
import type { accountEn } from "./languages/account.en.ts";
import type { texts } from "./languages/login.en.ts";

export type TextKey = KeysOf<typeof texts & typeof accountEn>;
type Translate = (key: TextKey, values?: Values) => string;

/** One file each. */
export const loadTexts: LoadTexts = async (language) => {
  if (language === "de") return (await import("./languages/login.de.ts")).texts;
  return (await import("./languages/login.en.ts")).texts;
};

const loadAccount: LoadTexts = async (language) => {
  if (language === "de") return (await import("./languages/account.de.ts")).accountDe;
  return (await import("./languages/account.en.ts")).accountEn;
};

/** Every page but the login has further texts. */
export const later = <Page>(load: () => Promise<Page>) => withTexts(loadAccount, load);

/** Renders again when the language changes. */
export function useText(): Translate {
  useLanguage();
  return textOf;
}
