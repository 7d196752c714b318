/**
 * @returns `text` without characters that would control a terminal, turn the reading direction, or begin a line: names,
 * user agents and messages of strangers are shown beside our own words.
 */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}]/gu, "\ufffd");
}

/** @returns `text` as harmless, in its lines. @param paint adds colours to a line. */
export function printableLines(text: string, paint = (line: string) => line): string {
  return text
    .split("\n")
    .map((line) => paint(printable(line)))
    .join("\n");
}

/** @returns JSON of `value` that is as harmless: JSON itself escapes only the first 32 characters. */
export function printableJson(value: unknown, indent = 0): string {
  return JSON.stringify(value, undefined, indent).replace(/(?!\n)[\p{Cc}\p{Cf}]/gu, escaped);
}

function escaped(character: string): string {
  const units = Array.from({ length: character.length }, (_, at) => character.charCodeAt(at));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("");
}
