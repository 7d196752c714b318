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
  /** Earlier versions wrote it at each start, so a copy without a record has no edits that had survived. */
  wasRewritten: boolean;
}

/**
 * Files of the home that its user may edit. An unchanged one follows its default; a changed one is never written.
 * @returns what the user should know.
 */
export async function keepFiles(home: Home, files: readonly KeptFile[]): Promise<string[]> {
  const known = await readRecord(home);
  const record = known ?? {};
  const notes: string[] = [];
  for (const { path, content, wasRewritten } of files) {
    const name = basename(path);
    const current = await readIfPresent(path);
    const isSame = current === content;
    const isUnchanged = current === undefined || digest(current) === record[name];
    const isOfOldHome = known === undefined && wasRewritten;
    if (!isSame && !isUnchanged && isOfOldHome) {
      await writePrivateFile(`${path}.old`, current);
      notes.push(`${path} was replaced, and is yours to edit from now on. The former one is ${name}.old.`);
    } else if (!isSame && !isUnchanged && record[name] !== digest(content)) {
      await writePrivateFile(`${path}.default`, content);
      notes.push(`${path} is yours and was kept. Its default has changed: compare ${name}.default.`);
    }
    if (!isSame && (isUnchanged || isOfOldHome)) await writePrivateFile(path, content);
    record[name] = digest(content);
  }
  await writePrivateFile(home.defaultsFile, `${JSON.stringify(record, undefined, 2)}\n`);
  return notes;
}

/** By file name: the SHA-256 of the default that was written or told of last. Undefined in a home of an earlier version. */
async function readRecord(home: Home): Promise<Record<string, string> | undefined> {
  const text = await readIfPresent(home.defaultsFile);
  if (text === undefined) return undefined;
  try {
    return recordSchema.parse(JSON.parse(text));
  } catch {
    return {};
  }
}
