import { expect, test } from "vitest";
import { FaultyDisk } from "./faulty-disk.fixture.ts";
import { encodeFileHeader, encodeRecord, FILE_HEADER_BYTES, recordBytes } from "./spool-record.ts";
import { readRecords, recoverSegment } from "./spool-segment.ts";

const PRODUCER = "7d8f4f0e-6f0a-4c56-9a0e-0d6a3f5d2b11";
const PATH = `/spool/${PRODUCER}-000001.spool`;
/** Size of one read. */
const READ_BYTES = 256 * 1024;

/** A disk with one file: a header followed by these parts. */
async function diskWith(...parts: Buffer[]): Promise<FaultyDisk> {
  const disk = new FaultyDisk();
  const file = await disk.create(PATH);
  await file.write(Buffer.concat([encodeFileHeader(PRODUCER), ...parts]), 0);
  return disk;
}

function records(first: number, last: number, entryBytes = 10): Buffer {
  const one = (sequence: number) => encodeRecord({ sequence, entry: Buffer.alloc(entryBytes, 1) });
  return Buffer.concat(Array.from({ length: last - first + 1 }, (_, index) => one(first + index)));
}

const sizeOf = (disk: FaultyDisk) => disk.files.get(PATH)?.bytes.length ?? 0;
const recover = async (disk: FaultyDisk, path = PATH) => recoverSegment(path, await disk.open(PATH));

test("an intact file is accepted with any number of records", async () => {
  const disk = await diskWith(records(5, 2_005));
  const found = await recover(disk);
  expect(found).toMatchObject({ cutBytes: 0, isDamaged: false, lost: [] });
  expect(found.segment).toMatchObject({
    path: PATH,
    producerId: PRODUCER,
    firstSequence: 5,
    lastSequence: 2_005,
    bytes: sizeOf(disk),
    isDamaged: false,
  });
});

test("a torn tail is cut off, and its length reported", async () => {
  const disk = await diskWith(records(1, 3), Buffer.alloc(7, 1));
  expect(await recover(disk)).toMatchObject({
    segment: { lastSequence: 3 },
    cutBytes: 7,
    isDamaged: false,
    lost: [],
  });
  expect(sizeOf(disk)).toBe(FILE_HEADER_BYTES + 3 * recordBytes(10));
});

test("lost sequences between records are reported, and nothing is cut off", async () => {
  const disk = await diskWith(records(1, 2), Buffer.alloc(40, 1), records(5, 6), Buffer.alloc(7, 1));
  const size = sizeOf(disk);
  const lost = [{ fromSequence: 3, toSequence: 4 }];
  expect(await recover(disk)).toMatchObject({
    segment: { lastSequence: 6 },
    cutBytes: 0,
    isDamaged: true,
    lost,
  });
  expect(sizeOf(disk)).toBe(size);
});

test.each([
  ["longer than what is read at once", 2 * READ_BYTES + 100],
  ["up to a record that begins just before the end of what is read at once", READ_BYTES - 10],
])("damage %s is skipped", async (_which, bytes) => {
  const disk = await diskWith(records(1, 1), Buffer.alloc(bytes), records(5, 6, 30_000));
  expect(await recover(disk)).toMatchObject({
    segment: { firstSequence: 1, lastSequence: 6 },
    isDamaged: true,
    lost: [{ fromSequence: 2, toSequence: 4 }],
  });
});

test("a file shorter than a header has no records and keeps its length", async () => {
  const disk = new FaultyDisk();
  await (await disk.create(PATH)).write(Buffer.from("GHS"), 0);
  expect(await recover(disk)).toEqual({ segment: undefined, cutBytes: 0, isDamaged: false, lost: [] });
  expect(sizeOf(disk)).toBe(3);
});

test.each([
  [PATH, PRODUCER],
  [`/spool/${PRODUCER}-12.spool`, PRODUCER],
  [`/spool/${PRODUCER}-.spool`, undefined],
  [`/spool/${PRODUCER}-x.spool`, undefined],
  [`/spool/${PRODUCER}-1.spool.damaged`, undefined],
  [`/spool/${PRODUCER.slice(0, -1)}-1.spool`, undefined],
  [`/spool/${PRODUCER.slice(1)}-1.spool`, undefined],
  [`/spool/${PRODUCER.replaceAll("-", "")}-1.spool`, undefined],
  [`/spool/${PRODUCER.toUpperCase()}-1.spool`, undefined],
])("without its header, the file %s belongs to %s", async (path, producerId) => {
  const disk = await diskWith(records(1, 3));
  disk.files.get(PATH)?.bytes.write("X");
  const found = await recover(disk, path);
  expect(found).toMatchObject({ cutBytes: 0, isDamaged: true });
  expect(found.segment?.producerId).toBe(producerId);
  expect(found.segment === undefined).toBe(producerId === undefined);
});

test.each([5_000, 290_000])("an unreadable tail is not cut off: a bad block at %i", async (at) => {
  const disk = await diskWith(records(1, 3), Buffer.alloc(300_000));
  disk.badBytes.set(PATH, [at]);
  const size = sizeOf(disk);
  expect(await recover(disk)).toMatchObject({ segment: { lastSequence: 3 }, cutBytes: 0, isDamaged: true });
  expect(sizeOf(disk)).toBe(size);
});

test("records before a large unreadable part are accepted", async () => {
  const disk = await diskWith(records(1, 6, 60_000));
  // After the first read: part of the fifth record, and the sixth.
  const bad = Array.from({ length: 24 }, (_, block) => 262_500 + 4_096 * block);
  disk.badBytes.set(PATH, bad);
  expect(await recover(disk)).toMatchObject({
    segment: { firstSequence: 1, lastSequence: 4, bytes: FILE_HEADER_BYTES + 4 * recordBytes(60_000) },
    cutBytes: 0,
    isDamaged: true,
  });
});

test("no record outside the range is read after damage", async () => {
  const disk = await diskWith(Buffer.alloc(100, 1), records(1, 2));
  const range = { from: FILE_HEADER_BYTES, to: FILE_HEADER_BYTES + 100 };
  expect(await readRecords({ file: await disk.open(PATH) }, range, 10)).toEqual({
    records: [],
    nextPosition: range.to,
    isDamaged: false,
  });
});

test("a run longer than one read is read to its end or to the limit", async () => {
  const disk = await diskWith(records(1, 12, 30_000));
  const file = await disk.open(PATH);
  const range = { from: FILE_HEADER_BYTES, to: sizeOf(disk) };
  const all = await readRecords({ file }, range, 100);
  expect(all.records.map(({ sequence }) => sequence)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
  expect(all).toMatchObject({ nextPosition: range.to, isDamaged: false });
  expect((await readRecords({ file }, range, 10)).records).toHaveLength(10);
});
