import { readPrivateFile } from "#kit/config/secret-file.ts";

/** RFC 9110 section 5. */
const LINE = /^([!#$%&'*+.^_`|~\w-]+):[ \t]*([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)[ \t]*$/;

/** `Name: value`, one a line. @throws {Error} without the content of the file. */
export function readHeadersFile(path: string): Readonly<Record<string, string>> {
  const { bytes, problem } = readPrivateFile(path);
  if (problem !== undefined) throw new Error(`${path}: ${problem}`);
  const lines = bytes
    .toString("utf8")
    .split(/\r?\n/)
    .filter((line) => line.trim() !== "");
  return Object.fromEntries(
    lines.map((line, index) => {
      const [, name = "", value = ""] = LINE.exec(line) ?? [];
      if (name === "") throw new Error(`${path}: line ${index + 1} is no header`);
      return [name, value];
    }),
  );
}
