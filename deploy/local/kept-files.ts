import { createHash } from "node:crypto";
import { basename } from "node:path";
import { z } from "zod";
import type { Home } from "./home.ts";
import { readIfPresent, writePrivateFile } from "./private-file.ts";

const digest = (text: string) => createHash("sha256").update(text).digest("hex");
const recordSchema = z.record(z.string(), z.string());

export interface KeptFile {
  path: string;
  content: string;
}

/**
 * Files of the home that its user may edit. An unchanged one follows its default; a changed one is never written.
 * @returns what the user should know.
 */
export async function keepFiles(home: Home, files: readonly KeptFile[]): Promise<string[]> {
  const record = await readRecord(home);
  const notes: string[] = [];
  for (const { path, content } of files) {
    const name = basename(path);
    const current = await readIfPresent(path);
    const isSame = current === content;
    const isUnchanged = current === undefined || digest(current) === record[name];
    if (!isSame && !isUnchanged && record[name] !== digest(content)) {
      await writePrivateFile(`${path}.default`, content);
      notes.push(`${path} is yours and was kept. Its default has changed: compare ${name}.default.`);
    }
    if (!isSame && isUnchanged) await writePrivateFile(path, content);
    record[name] = digest(content);
  }
  await writePrivateFile(home.defaultsFile, `${JSON.stringify(record, undefined, 2)}\n`);
  return notes;
}

/** By file name: the SHA-256 of the default that was written, or named in a note, last. */
async function readRecord(home: Home): Promise<Record<string, string>> {
  const text = await readIfPresent(home.defaultsFile);
  if (text === undefined) return {};
  try {
    return recordSchema.parse(JSON.parse(text));
  } catch {
    return {};
  }
}
