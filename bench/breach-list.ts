/**
 * A breach list of generated hashes: the time, memory and size of building it, its false positives and the time of a look-up.
 *
 *   npm run bench:breach-list [entries]
 */
import { createCipheriv } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildBreachList } from "#breach-list/build-breach-list.ts";
import * as format from "#breach-list/list-format.ts";
import { type BreachList, openBreachList } from "#breach-list/open-breach-list.ts";

const entries = Number(process.argv[2] ?? 10_000_000);
const HASH_BYTES = 20;
const HASHES_A_CHUNK = 16_384;
const LOOK_UPS = 16_384;

/** The same hashes for the same key, in chunks. */
function* hashes(key: string, count: number): Generator<Buffer> {
  const stream = createCipheriv("aes-128-ctr", Buffer.from(key.padEnd(16)), Buffer.alloc(16));
  for (let done = 0; done < count; done += HASHES_A_CHUNK) {
    yield stream.update(Buffer.alloc(Math.min(HASHES_A_CHUNK, count - done) * HASH_BYTES));
  }
}

async function* lines(): AsyncGenerator<Buffer> {
  for (const chunk of hashes("known", entries)) {
    const texts = chunk.toString("hex").toUpperCase().match(/.{40}/g) ?? [];
    yield Buffer.from(texts.map((text) => `${text}:1\r\n`).join(""));
  }
}

/** Reads the file whole and without the product's reader, which takes three calls of the operating system a look-up. */
function countFound(file: Buffer, { bucketBits, entries: kept }: format.ListHeader, key: string): number {
  let found = 0;
  const index = format.indexStart({ entries: kept });
  for (const chunk of hashes(key, entries)) {
    for (let at = 0; at < chunk.length; at += HASH_BYTES) {
      const [high, low] = [chunk.readUInt32BE(at), chunk.readUInt32BE(at + 4)];
      const entryAt = index + format.bucketOf(bucketBits, high) * format.INDEX_ENTRY_BYTES;
      const wanted = format.remainderOf(bucketBits, high, low);
      const end =
        format.HEADER_BYTES + file.readUInt32LE(entryAt + format.INDEX_ENTRY_BYTES) * format.REMAINDER_BYTES;
      let place = format.HEADER_BYTES + file.readUInt32LE(entryAt) * format.REMAINDER_BYTES;
      while (place < end && file.readUInt32LE(place) < wanted) place += format.REMAINDER_BYTES;
      if (place < end && file.readUInt32LE(place) === wanted) found += 1;
    }
  }
  return found;
}

async function lookUp(list: BreachList): Promise<void> {
  for (const chunk of hashes("other", LOOK_UPS)) {
    for (let at = 0; at < chunk.length; at += HASH_BYTES) await list.contains(chunk.subarray(at));
  }
}

function report(what: string, startMs: number, start: NodeJS.CpuUsage): void {
  const { user, system } = process.cpuUsage(start);
  const seconds = ((performance.now() - startMs) / 1_000).toFixed(1);
  const peak = (process.resourceUsage().maxRSS / 1_024).toFixed(0);
  console.log(
    `${what}: ${seconds} s, ${((user + system) / 1e6).toFixed(1)} s CPU, peak of the process ${peak} MiB`,
  );
}

async function measured<T>(what: string, work: () => Promise<T>): Promise<T> {
  const [startMs, start] = [performance.now(), process.cpuUsage()];
  const result = await work();
  report(what, startMs, start);
  return result;
}

const folder = mkdtempSync(join(tmpdir(), "gatehouse-bench-"));
try {
  const path = join(folder, "list");
  const output = await open(path, "wx");
  const [label, now] = ["generated", () => new Date()];
  await measured("build, with generating the hashes", () =>
    buildBreachList({ input: lines(), output, scratch: folder, label, minCount: 1, now }),
  );
  const { size } = await output.stat();
  await output.close();
  console.log(`${entries} hashes: ${size} bytes, ${((size * 8) / entries).toFixed(2)} bits each`);
  const list = await measured("open and verify", () => openBreachList(path));
  await measured(`${LOOK_UPS} look-ups, one after the other`, () => lookUp(list));
  const file = readFileSync(path);
  const known = countFound(file, list.header, "known");
  const unknown = countFound(file, list.header, "other");
  console.log(`missed: ${entries - known} of ${entries}; false positives: ${unknown} of ${entries}`);
  await list.close();
} finally {
  rmSync(folder, { recursive: true });
}
