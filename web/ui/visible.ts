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
