/**
 * What shows nothing, or changes how other characters are shown, by property: controls, halves of pairs, private and unassigned
 * characters, joiners, fillers, variation selectors, marks of direction, separators of lines, the empty Braille pattern. The
 * inside of a class. `web/ui/format.ts` has the same.
 */
export const UNSEEN_CLASS = String.raw`\p{C}\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}\u2800`;

const VIRAMA =
  "[\u094D\u09CD\u0A4D\u0ACD\u0B4D\u0BCD\u0C4D\u0CCD\u0D3B\u0D3C\u0D4D\u0DCA\u0F84\u1039\u103A\u17D2\u1B44\u1BAA\u1BAB\uA806\uA8C4\uA953\uA9C0\uAAF6\uABED\u{11046}\u{110B9}\u{11133}\u{111C0}\u{11235}\u{1134D}\u{114C2}\u{115BF}]";
const CURSIVE = String.raw`(?=[\p{L}\p{M}])[\p{Script_Extensions=Arabic}\p{Script=Syriac}\p{Script=Nko}\p{Script=Mongolian}\p{Script=Adlam}\p{Script=Hanifi_Rohingya}]`;

/** Where an unseen character is spelling: joiners at a virama or within cursive words (RFC 5892 A.1 and A.2, UAX #31), variants of Han and Mongolian. */
export const SPELLING = [
  `(?<=${VIRAMA})[\\u200C\\u200D]`,
  `\\u200D(?=${VIRAMA})`,
  `(?<=${CURSIVE})\\u200C(?=${CURSIVE})`,
  String.raw`(?<=\p{Script=Han})[\uFE00-\uFE02\u{E0100}-\u{E01EF}]`,
  String.raw`(?<=\p{Script=Mongolian})[\u180B-\u180F]`,
].join("|");

const NAME_TEXT = `(?:${SPELLING}|[^${UNSEEN_CLASS}])`;
/** A name of a person: one rule for every way in. */
export const PERSONAL_NAME = new RegExp(`^(?=.*[^\\p{Z}${UNSEEN_CLASS}])${NAME_TEXT}+$`, "u");
/** The same, or none: empty, or spaces. docs/decisions/registration-and-mail.md. */
export const OPTIONAL_NAME = new RegExp(`^${NAME_TEXT}*$`, "u");

/** What a name must not have. */
export const UNSEEN_IN_NAMES = new RegExp(`(?!${SPELLING})[${UNSEEN_CLASS}]`, "gu");
