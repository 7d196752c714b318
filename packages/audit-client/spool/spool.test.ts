import { beforeEach, expect, test } from "vitest";
import { FaultyDisk } from "./faulty-disk.fixture.ts";
import { Spool, type SpoolDeps } from "./spool.ts";
import { encodeRecord, FILE_HEADER_BYTES, recordBytes, type SpoolRecord } from "./spool-record.ts";
import { readRecords, recoverSegment } from "./spool-segment.ts";

const PRODUCER = "7d8f4f0e-6f0a-4c56-9a0e-0d6a3f5d2b11";
const ENTRY_BYTES = 10;

let disk: FaultyDisk;
let spool: Spool;
let damages: [from: number, to: number][];

beforeEach(() => {
  disk = new FaultyDisk();
  damages = [];
  spool = newSpool();
});

test("appended records survive a power loss with any part of the next group on the disk", async () => {
  await spool.append(records(1, 3));
  await spool.append(records(4, 5));
  // The third group is written but not synced, so it was never acknowledged.
  for (let torn = 0; torn < 2 * recordBytes(ENTRY_BYTES); torn += 1) {
    const crashed = new FaultyDisk();
    const dying = newSpool({ files: crashed });
    await dying.append(records(1, 3));
    await dying.append(records(4, 5));
    const path = [...crashed.files.keys()][0] ?? "";
    await (await crashed.open(path)).write(
      bytesOf(records(6, 7)),
      crashed.files.get(path)?.bytes.length ?? 0,
    );
    crashed.crash(() => torn);
    const isFirstWhole = torn >= recordBytes(ENTRY_BYTES);
    expect(await recovered(crashed)).toEqual(isFirstWhole ? [1, 2, 3, 4, 5, 6] : [1, 2, 3, 4, 5]);
  }
});

test("a tail of zeros or of old bytes is not a record", async () => {
  await spool.append(records(1, 2));
  const [content] = disk.files.values();
  if (content === undefined) throw new Error("no file");
  const whole = content.bytes;
  for (const tail of [Buffer.alloc(4_096), Buffer.alloc(64, 0xff), whole.subarray(-8), Buffer.alloc(3)]) {
    content.bytes = Buffer.concat([whole, tail]);
    expect(await recovered(disk)).toEqual([1, 2]);
    expect(content.bytes).toHaveLength(whole.length);
  }
});

test("every changed byte of a record is detected", async () => {
  await spool.append(records(1, 2));
  const [content] = disk.files.values();
  if (content === undefined) throw new Error("no file");
  const whole = Buffer.from(content.bytes);
  const second = FILE_HEADER_BYTES + recordBytes(ENTRY_BYTES);
  for (let at = second; at < whole.length; at += 1) {
    content.bytes = Buffer.from(whole);
    content.bytes[at] = (content.bytes[at] ?? 0) ^ 0x10;
    expect(await recovered(disk)).toEqual([1]);
  }
});

test("records are read in order from any sequence, across files, in runs of at most the limit", async () => {
  spool = newSpool({ segmentBytes: 100 });
  for (let first = 1; first <= 28; first += 3) await spool.append(records(first, first + 2));
  expect(disk.files.size).toBe(10);
  const read: number[] = [];
  for (let next = 1; ; ) {
    const run = await spool.read(next, 4);
    expect(run.length).toBeLessThanOrEqual(4);
    if (run.length === 0) break;
    expect(run[0]).toEqual(record(next));
    read.push(...run.map(({ sequence }) => sequence));
    next += run.length;
  }
  expect(read).toEqual(Array.from({ length: 30 }, (_, index) => index + 1));
  expect((await spool.read(2, 2))[0]?.sequence).toBe(2); // again, after a reconnect
  expect((await spool.read(17, 1)).map(({ sequence }) => sequence)).toEqual([17]);
});

test("a gap of entries that were never stored is no damage, and records that are not durable are not read", async () => {
  await spool.append(records(50, 51));
  await spool.append(records(60, 61)); // as if the count had gone on elsewhere
  const [content] = disk.files.values();
  if (content === undefined) throw new Error("no file");
  content.bytes = Buffer.concat([content.bytes, bytesOf(records(62, 62))]);
  expect(sequencesOf(await spool.read(1, 10))).toEqual([50, 51]);
  expect(sequencesOf(await spool.read(60, 10))).toEqual([60, 61]);
  expect(sequencesOf(await spool.read(62, 10))).toEqual([]);
  expect(damages).toEqual([]);
});

test("reading can be repeated, also from the middle of an earlier read", async () => {
  await spool.append(records(1, 6));
  for (let round = 0; round < 2; round += 1) {
    expect(sequencesOf(await spool.read(1, 2))).toEqual([1, 2]);
    expect(sequencesOf(await spool.read(2, 2))).toEqual([2]);
    expect(sequencesOf(await spool.read(3, 2))).toEqual([3, 4]);
  }
  expect(damages).toEqual([]);
});

test("files are named by producer and number, and end exactly at their size limit", async () => {
  spool = newSpool({ segmentBytes: FILE_HEADER_BYTES + 4 * recordBytes(ENTRY_BYTES) });
  await spool.append([]);
  expect(disk.files.size).toBe(0);
  await spool.append(records(1, 3));
  await spool.append(records(4, 4));
  await spool.append(records(5, 5));
  const [first, second] = [`/spool/${PRODUCER}-000001.spool`, `/spool/${PRODUCER}-000002.spool`];
  expect([...disk.files.keys()]).toEqual([first, second]);
  expect(spool.bytes).toBe(2 * FILE_HEADER_BYTES + 5 * recordBytes(ENTRY_BYTES));
  await spool.release(4);
  await spool.append(records(6, 6));
  expect([...disk.files.keys()]).toEqual([second]); // not begun anew
});

test("a file ends at 8 MiB by default", async () => {
  spool = newSpool({ maxBytes: 100_000_000 });
  const large = (sequence: number, bytes: number) => ({ sequence, entry: Buffer.alloc(bytes, 1) });
  await spool.append([large(1, 8 * 1024 * 1024 - FILE_HEADER_BYTES - recordBytes(0) - 1)]);
  await spool.append([large(2, 1)]);
  expect(disk.files.size).toBe(1);
  await spool.append([large(3, 1)]);
  expect(disk.files.size).toBe(2);
});

test("a file is removed when all its records are released; an empty spool starts a new one", async () => {
  spool = newSpool({ segmentBytes: 100 });
  for (let first = 1; first <= 7; first += 3) await spool.append(records(first, first + 2));
  const before = spool.bytes;
  await spool.release(5);
  expect(disk.files.size).toBe(2);
  await spool.release(6);
  expect(disk.files.size).toBe(1);
  expect(spool.bytes).toBeLessThan(before);
  await spool.release(9);
  expect([disk.files.size, spool.bytes]).toEqual([0, 0]);
  await spool.append(records(50, 51));
  expect(await recovered(disk)).toEqual([50, 51]);
});

test("after the release of a file that was not full, records go into the next one", async () => {
  await spool.append(records(1, 2));
  await spool.release(2);
  await spool.append(records(3, 3));
  expect(await recovered(disk)).toEqual([3]);
});

test("files are closed on release, on a failed creation, and when the spool closes", async () => {
  spool = newSpool({ segmentBytes: 1 });
  disk.failing.set("write", "EIO");
  await expect(spool.append(records(1, 1))).rejects.toMatchObject({ code: "EIO" });
  expect(disk.openFiles).toBe(0);
  disk.failing.clear();
  for (let sequence = 1; sequence <= 3; sequence += 1) await spool.append(records(sequence, sequence));
  expect(disk.openFiles).toBe(3);
  await spool.release(1);
  expect(disk.openFiles).toBe(2);
  await spool.close();
  expect(disk.openFiles).toBe(0);
});

test("a release of all earlier records does not remove records that are being appended", async () => {
  await spool.append(records(1, 2));
  const appended = spool.append(records(3, 4));
  await spool.release(2);
  await appended;
  disk.crash();
  expect(await recovered(disk)).toEqual([1, 2, 3, 4]);
});

test("an empty append creates no file", async () => {
  await spool.append([]);
  expect(disk.files.size).toBe(0);
});

test("nothing is appended beyond the size limit", async () => {
  const cap = 2 * FILE_HEADER_BYTES + 4 * recordBytes(ENTRY_BYTES);
  spool = newSpool({ maxBytes: cap });
  await spool.append(records(1, 4));
  await expect(spool.append(records(5, 5))).rejects.toThrow("full");
  await spool.release(4);
  await spool.append(records(5, 5));
  spool = newSpool({ maxBytes: FILE_HEADER_BYTES + 4 * recordBytes(ENTRY_BYTES), directory: "/other" });
  await spool.append(records(1, 4));
});

test("a full disk stores nothing of a group, and the next group that fits follows without a gap", async () => {
  await spool.append(records(1, 2));
  disk.capacityBytes = FILE_HEADER_BYTES + 3 * recordBytes(ENTRY_BYTES) + 5;
  await expect(spool.append(records(3, 6))).rejects.toMatchObject({ code: "ENOSPC" });
  await expect(spool.append(records(3, 6))).rejects.toMatchObject({ code: "ENOSPC" });
  expect((await spool.read(1, 10)).map(({ sequence }) => sequence)).toEqual([1, 2]);
  const sizes = [...disk.files.values()].map(({ bytes }) => bytes.length);
  expect(sizes).toEqual([FILE_HEADER_BYTES + 2 * recordBytes(ENTRY_BYTES)]);
  disk.capacityBytes = 10_000;
  await spool.append(records(3, 6));
  disk.crash();
  expect(await recovered(disk)).toEqual([1, 2, 3, 4, 5, 6]);
});

test("after a failed fsync the file gets no more records, because a later success proves nothing", async () => {
  await spool.append(records(1, 2));
  disk.failing.set("datasync", "EIO");
  await expect(spool.append(records(3, 4))).rejects.toMatchObject({ code: "EIO" });
  disk.failing.delete("datasync");
  await spool.append(records(3, 4));
  expect(disk.files.size).toBe(2);
  disk.crash();
  expect(await recovered(disk)).toEqual([1, 2, 3, 4]);
});

test("a new file without a durable name is not used", async () => {
  disk.failing.set("syncDirectory", "EIO");
  await expect(spool.append(records(1, 1))).rejects.toMatchObject({ code: "EIO" });
  expect(disk.files.size).toBe(0);
});

test("unreadable records are reported and skipped, later ones are read, and the file is kept", async () => {
  spool = newSpool({ segmentBytes: 100 });
  await spool.append(records(1, 4));
  await spool.append(records(5, 6));
  const [path, content] = [...disk.files][0] ?? [];
  if (path === undefined || content === undefined) throw new Error("no file");
  const second = FILE_HEADER_BYTES + recordBytes(ENTRY_BYTES);
  content.bytes[second + 20] = 0xee;
  expect((await spool.read(1, 10)).map(({ sequence }) => sequence)).toEqual([1]);
  expect((await spool.read(2, 10)).map(({ sequence }) => sequence)).toEqual([3, 4]);
  expect((await spool.read(5, 10)).map(({ sequence }) => sequence)).toEqual([5, 6]);
  expect(damages).toEqual([[2, 2]]);
  await spool.release(6);
  expect([...disk.files.keys()]).toEqual([`/spool/.damaged/${path.slice("/spool/".length)}.damaged`]);
});

test("an unreadable last record is reported, and nothing is read instead", async () => {
  await spool.append(records(1, 3));
  const [content] = disk.files.values();
  if (content === undefined) throw new Error("no file");
  content.bytes[content.bytes.length - 1] = 0xee;
  expect(sequencesOf(await spool.read(1, 10))).toEqual([1, 2]);
  expect(await spool.read(3, 10)).toEqual([]);
  expect(damages).toEqual([[3, 3]]);
});

test("a bad block costs only the records in it", async () => {
  spool = newSpool({ segmentBytes: 12_000 });
  const large = (sequence: number) => ({ sequence, entry: Buffer.alloc(3_000, sequence) });
  await spool.append([1, 2, 3, 4, 5].map(large));
  await spool.append([6].map(large));
  const [path = ""] = disk.files.keys();
  disk.badBytes.set(path, [4_100]); // the block from 4096 to 8191: parts of the records 2 and 3
  const read: number[] = [];
  for (let next = 1; next <= 6; next = (read.at(-1) ?? 0) + 1) {
    read.push(...(await spool.read(next, 10)).map(({ sequence }) => sequence));
  }
  expect(read).toEqual([1, 4, 5, 6]);
  expect(damages).toEqual([[2, 3]]);
});

test("an unreadable file is skipped", async () => {
  spool = newSpool({ segmentBytes: 1 });
  await spool.append([{ sequence: 1, entry: Buffer.alloc(60_000, 1) }]);
  await spool.append([{ sequence: 2, entry: Buffer.alloc(60_000, 1) }]);
  await spool.append(records(3, 3));
  const [first = "", second = ""] = disk.files.keys();
  for (const path of [first, second]) {
    disk.badBytes.set(
      path,
      Array.from({ length: 17 }, (_, block) => block * 4_096)
        .slice(0, 15)
        .concat(7),
    );
  }
  expect((await spool.read(1, 10)).map(({ sequence }) => sequence)).toEqual([3]);
  expect(damages).toEqual([
    [1, 1],
    [2, 2],
  ]);
});

test("a file with too many bad blocks does not block the next one", async () => {
  spool = newSpool({ segmentBytes: 1 });
  const entry = Buffer.alloc(60_000, 1);
  await spool.append([
    { sequence: 1, entry },
    { sequence: 2, entry },
  ]);
  await spool.append(records(3, 3));
  const [first = ""] = disk.files.keys();
  disk.badBytes.set(
    first,
    Array.from({ length: 29 }, (_, block) => block * 4_096),
  );
  expect(sequencesOf(await spool.read(1, 10))).toEqual([3]);
  expect(damages).toEqual([[1, 2]]);
});

function newSpool(changes: Partial<SpoolDeps> = {}): Spool {
  return new Spool({
    files: disk,
    directory: "/spool",
    damagedDirectory: "/spool/.damaged",
    producerId: PRODUCER,
    maxBytes: 1_000_000,
    bytesOfOthers: () => 0,
    onDamage: (_path, from, to) => void damages.push([from, to]),
    ...changes,
  });
}

function record(sequence: number): SpoolRecord {
  return { sequence, entry: Buffer.from(String(sequence).padStart(ENTRY_BYTES, "0")) };
}

function records(first: number, last: number): SpoolRecord[] {
  return Array.from({ length: last - first + 1 }, (_, index) => record(first + index));
}

function sequencesOf(some: readonly SpoolRecord[]): number[] {
  return some.map(({ sequence }) => sequence);
}

function bytesOf(some: readonly SpoolRecord[]): Buffer {
  return Buffer.concat(some.map(encodeRecord));
}

/** The sequences that the next process finds. */
async function recovered(from: FaultyDisk): Promise<number[]> {
  const sequences: number[] = [];
  for (const path of [...from.files.keys()].sort()) {
    const { segment } = await recoverSegment(path, await from.open(path));
    if (segment === undefined) continue;
    expect(segment.producerId).toBe(PRODUCER);
    const range = { from: FILE_HEADER_BYTES, to: segment.bytes };
    const read = await readRecords(segment, range, 1_000);
    sequences.push(...read.records.map(({ sequence }) => sequence));
  }
  return sequences;
}
