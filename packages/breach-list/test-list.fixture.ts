import { createHash } from "node:crypto";
import { mkdtempSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildBreachList } from "./build-breach-list.ts";
import type { ListHeader } from "./list-format.ts";

export const sha1 = (password: string) => createHash("sha1").update(password).digest();

export const newFolder = () => mkdtempSync(join(tmpdir(), "gatehouse-breach-list-"));

export function hashLines(passwords: readonly string[]): string {
  return passwords.map((password) => `${sha1(password).toString("hex").toUpperCase()}:7\r\n`).join("");
}

async function* inChunks(text: string, chunkBytes = 65_536): AsyncGenerator<Buffer> {
  const bytes = Buffer.from(text);
  for (let start = 0; start < bytes.length; start += chunkBytes)
    yield bytes.subarray(start, start + chunkBytes);
}

export interface TestList {
  label?: string;
  minCount?: number;
  builtAt?: Date;
  chunkBytes?: number;
}

/** Writes to a new file. */
export async function writeTestList(path: string, text: string, options: TestList = {}): Promise<ListHeader> {
  const { label = "test", minCount = 1, builtAt = new Date(), chunkBytes } = options;
  const output = await open(path, "wx");
  try {
    const input = inChunks(text, chunkBytes);
    return await buildBreachList({
      input,
      output,
      scratch: newFolder(),
      label,
      minCount,
      now: () => builtAt,
    });
  } finally {
    await output.close();
  }
}
