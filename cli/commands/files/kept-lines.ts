import { isDeepStrictEqual } from "node:util";
import { parse } from "yaml";

/**
 * An edited YAML file in which every line that the edit leaves alone is as its owner wrote it. The library writes all lines anew, with
 * white space of its own; comments, order and quotes it keeps.
 *
 * @param written the file as it is. @param formatted the same, as the library writes it. @param edited the result, as it writes that.
 * @returns `edited` where the lines of the file cannot be distinguished from those of the edit.
 */
export function withKeptLines(written: string, formatted: string, edited: string): string {
  const [own, before, after] = [linesOf(written), linesOf(formatted), linesOf(edited)];
  const eol = written.includes("\r\n") ? "\r\n" : "\n";
  const anew = after.join(eol);
  const isSame =
    own.length === before.length && own.every((line, index) => bare(line) === bare(before[index]));
  if (!isSame) return anew;
  const head = equalFrom(before, after);
  const most = Math.min(before.length, after.length) - head;
  const tail = Math.min(equalFrom(before.toReversed(), after.toReversed()), most);
  const changed = after.slice(head, after.length - tail);
  const lines = [...own.slice(0, head), ...changed, ...own.slice(own.length - tail)];
  const merged = lines.join(eol);
  return saysTheSame(merged, edited) ? merged : anew;
}

function linesOf(text: string): string[] {
  return text.trimEnd().split(/\r?\n/).concat("");
}

function bare(line: string | undefined): string | undefined {
  return line?.replaceAll(/\s/g, "");
}

function equalFrom(some: readonly string[], others: readonly string[]): number {
  const index = some.findIndex((line, at) => line !== others[at]);
  return index === -1 ? some.length : index;
}

/** Lines of another indentation may change what the file says. */
function saysTheSame(text: string, other: string): boolean {
  try {
    return isDeepStrictEqual(parse(text), parse(other));
  } catch {
    return false;
  }
}
