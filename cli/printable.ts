/**
 * @returns `text` without characters that would control a terminal, turn the reading direction, or begin a line: names,
 * user agents and messages of strangers are shown beside our own words.
 */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}]/gu, "\ufffd");
}
