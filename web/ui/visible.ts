/** Controls, marks of direction, joiners, separators of lines, halves of pairs, and what no font knows. */
const UNSEEN = /[\p{C}\p{Zl}\p{Zp}]/gu;

/** Text of strangers as it is: what would be invisible, or turn the text around, is named by its code point. */
export const visible = (text: string): string =>
  text.replace(
    UNSEEN,
    (character) =>
      `\u27e8U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`,
  );
