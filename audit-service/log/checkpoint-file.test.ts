import { generateKeyPairSync } from "node:crypto";
import { appendFile, mkdtemp, open, readFile, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createCheckpointSigner } from "./checkpoint.ts";
import { checkpointFile } from "./checkpoint-file.ts";

const signer = createCheckpointSigner("test/audit", generateKeyPairSync("ed25519").privateKey);
const stranger = createCheckpointSigner("test/audit", generateKeyPairSync("ed25519").privateKey);
const noteOf = (size: number, by = signer) => by.checkpoint({ size, root: Buffer.alloc(32, 1) }, new Date(0));

let directory: string;
let path: string;
let clockMs: number;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "gatehouse-checkpoints-"));
  path = join(directory, "checkpoints.jsonl");
  clockMs = 0;
});
afterEach(() => rm(directory, { recursive: true }));

const fileOf = (changes: Partial<Parameters<typeof checkpointFile>[0]> = {}) =>
  checkpointFile({ path, signer, monotonicMs: () => clockMs, ...changes });
const linesOf = async (name: string) => (await readFile(name, "utf8")).trim().split("\n");

test("one line a minute is kept, and the last head is still known", async () => {
  const file = fileOf();
  for (let second = 0; second < 180; second += 1) {
    clockMs = second * 1_000;
    await file.append(noteOf(second + 1));
  }
  expect(await linesOf(path)).toHaveLength(3);
  expect((await fileOf().last())?.size).toBe(180);
});

test("the file of the latest checkpoints is bounded", async () => {
  const file = fileOf({ maxLatestBytes: 2_000 });
  for (let size = 1; size <= 100; size += 1) await file.append(noteOf(size));
  const latest = await readFile(`${path}.latest`, "utf8").catch(() => "");
  const former = await readFile(`${path}.latest.1`, "utf8");
  expect(latest.length + former.length).toBeLessThan(5_000);
  expect((await fileOf().last())?.size).toBe(100);
});

test("a head with another signature is ignored", async () => {
  await fileOf().append(noteOf(7));
  const forged = noteOf(1e15, stranger);
  const unsigned = noteOf(9).replace(/— .*\n$/, "");
  const changed = noteOf(9).replace("\n9\n", "\n99\n");
  for (const note of [forged, unsigned, changed]) {
    await appendFile(path, `${JSON.stringify({ type: "checkpoint", note })}\n`);
  }
  expect((await fileOf().last())?.size).toBe(7);
});

test("append resolves once the line is durable, and rejects if it cannot be written", async () => {
  const done: string[] = [];
  const opening = (async (...args: Parameters<typeof open>) => {
    const file = await open(...args);
    const sync = file.sync.bind(file);
    file.sync = async () => {
      await sync();
      done.push("synced");
    };
    return file;
  }) as typeof open;
  await fileOf({ files: { open: opening, rename } }).append(noteOf(1));
  expect(done).toEqual(["synced", "synced"]); // the latest ones and the kept one

  const failing = (async (...args: Parameters<typeof open>) => {
    const file = await open(...args);
    file.sync = () => Promise.reject(new Error("EIO"));
    return file;
  }) as typeof open;
  await expect(fileOf({ files: { open: failing, rename } }).append(noteOf(2))).rejects.toThrow("EIO");
});
