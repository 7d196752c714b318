import { BreachListError } from "./list-format.ts";

const SHA1_DIGITS = 40;
/** A hash, a colon, a count and a line break of any kind. */
const MAX_LINE_BYTES = 64;
const [LINE_FEED, CARRIAGE_RETURN, COLON] = [10, 13, 58];
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/** Values of hexadecimal digits by their bytes. 255: is not one. */
const DIGIT = new Uint8Array(256).fill(255);
for (let value = 0; value < 16; value += 1) {
  DIGIT[value.toString(16).charCodeAt(0)] = value;
  DIGIT[value.toString(16).toUpperCase().charCodeAt(0)] = value;
}

/** What other lists have instead of 40 digits. */
const OTHER_LISTS: Readonly<Record<number, string>> = {
  32: "32 digits are an NTLM or MD5 hash; a list of SHA-1 hashes is needed",
  35: "35 digits are a line of a range file; the whole list in one file is needed",
  64: "64 digits are a SHA-256 hash; a list of SHA-1 hashes is needed",
};

/**
 * Reads `SHA1` or `SHA1:COUNT` a line, as Have I Been Pwned's list has them, in any order. Counts below `minCount` are left
 * out; a line without a count is not.
 * @param take receives the first and the second 32 bits of each hash. @throws {BreachListError} naming the line.
 */
export async function readHashLines(
  input: AsyncIterable<Buffer>,
  minCount: number,
  take: (high: number, low: number) => void,
): Promise<void> {
  let rest: Buffer = Buffer.alloc(0);
  let number = 0;
  for await (const chunk of input) {
    let text = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    if (number === 0 && text.subarray(0, 3).equals(BYTE_ORDER_MARK)) text = text.subarray(3);
    let start = 0;
    for (let end = text.indexOf(LINE_FEED); end !== -1; end = text.indexOf(LINE_FEED, start)) {
      number += 1;
      readLine(text, start, end, { number, minCount, take });
      start = end + 1;
    }
    rest = text.subarray(start);
    if (rest.length > MAX_LINE_BYTES) readLine(rest, 0, rest.length, { number: number + 1, minCount, take });
  }
  readLine(rest, 0, rest.length, { number: number + 1, minCount, take });
}

interface LineReader {
  number: number;
  minCount: number;
  take: (high: number, low: number) => void;
}

function readLine(
  text: Buffer,
  start: number,
  lineEnd: number,
  { number, minCount, take }: LineReader,
): void {
  const end = text[lineEnd - 1] === CARRIAGE_RETURN && lineEnd > start ? lineEnd - 1 : lineEnd;
  if (end === start) return;
  const digitsEnd = start + SHA1_DIGITS;
  const isComplete = end === digitsEnd || (end > digitsEnd && text[digitsEnd] === COLON);
  if (!isComplete || end - start > MAX_LINE_BYTES || !isHexadecimal(text, start, digitsEnd))
    throw new BreachListError(`line ${number} ${problemOf(text, start, end)}`);
  if (end > digitsEnd && countIn(text, digitsEnd + 1, end, number) < minCount) return;
  take(word(text, start), word(text, start + 8));
}

function isHexadecimal(text: Buffer, start: number, end: number): boolean {
  for (let at = start; at < end; at += 1) if (DIGIT[text[at] ?? 0] === 255) return false;
  return true;
}

function problemOf(text: Buffer, start: number, end: number): string {
  let digits = 0;
  while (start + digits < end && DIGIT[text[start + digits] ?? 0] !== 255) digits += 1;
  const other = OTHER_LISTS[digits];
  return other === undefined
    ? "does not begin with a SHA-1 hash of 40 hexadecimal digits"
    : `is refused: ${other}`;
}

/** @throws {BreachListError} */
function countIn(text: Buffer, start: number, end: number, number: number): number {
  let count = 0;
  for (let at = start; at < end; at += 1) {
    const digit = (text[at] ?? 0) - 48;
    if (digit < 0 || digit > 9) throw new BreachListError(`line ${number} has no number after its colon`);
    count = count * 10 + digit;
  }
  if (end === start) throw new BreachListError(`line ${number} has no number after its colon`);
  return count;
}

/** Eight digits. */
function word(text: Buffer, start: number): number {
  let value = 0;
  for (let at = start; at < start + 8; at += 1) value = (value << 4) | (DIGIT[text[at] ?? 0] ?? 0);
  return value >>> 0;
}
