import { crc32c } from "@node-rs/crc32";
import { expect, test } from "vitest";
import {
  decodeFileHeader,
  decodeRecord,
  encodeFileHeader,
  encodeRecord,
  FILE_HEADER_BYTES,
  MAX_RECORD_BYTES,
  recordBytes,
} from "./spool-record.ts";

const PRODUCER = "7d8f4f0e-6f0a-4c56-9a0e-0d6a3f5d2b11";

// Versions must read each other's files.
test("the encoding of the file header and of a record does not change", () => {
  const header = encodeFileHeader(PRODUCER);
  const named = Buffer.concat([Buffer.from("GHSPOOL1"), Buffer.from(PRODUCER.replaceAll("-", ""), "hex")]);
  expect(header).toEqual(Buffer.concat([named, uint32(crc32c(named))]));
  expect(header).toHaveLength(FILE_HEADER_BYTES);

  const record = encodeRecord({ sequence: 2 ** 40 + 7, entry: Buffer.from("entry") });
  const sequence = Buffer.from("0000010000000007", "hex");
  const checksum = crc32c(Buffer.concat([uint32(5), sequence, Buffer.from("entry")]));
  expect(record).toEqual(Buffer.concat([uint32(5), uint32(checksum), sequence, Buffer.from("entry")]));
  expect(record).toHaveLength(recordBytes(5));
});

test("a header contains its producer id; a damaged or truncated one is refused", () => {
  const header = encodeFileHeader(PRODUCER);
  expect(decodeFileHeader(header)).toBe(PRODUCER);
  expect(decodeFileHeader(Buffer.concat([header, Buffer.from("more")]))).toBe(PRODUCER);
  for (let at = 0; at < header.length; at += 1) {
    const damaged = Buffer.from(header);
    damaged[at] = (damaged[at] ?? 0) ^ 1;
    expect(decodeFileHeader(damaged)).toBeUndefined();
    expect(decodeFileHeader(header.subarray(0, at))).toBeUndefined();
  }
  const other = Buffer.from(header);
  other.write("GHSPOOL2");
  other.writeUInt32BE(crc32c(other.subarray(0, -4)), FILE_HEADER_BYTES - 4);
  expect(decodeFileHeader(other)).toBeUndefined();
});

test("a record is read with other bytes behind it; a truncated one is refused", () => {
  const record = encodeRecord({ sequence: 9, entry: Buffer.from("e") });
  const read = decodeRecord(Buffer.concat([record, Buffer.from("more")]));
  expect(read?.sequence).toBe(9);
  expect(Buffer.from(read?.entry ?? []).toString()).toBe("e");
  for (let length = 0; length < record.length; length += 1)
    expect(decodeRecord(record.subarray(0, length))).toBeUndefined();
});

test("empty and oversized records are refused", () => {
  const ofLength = (bytes: number) =>
    decodeRecord(encodeRecord({ sequence: 1, entry: Buffer.alloc(bytes, 1) }))?.entry.length;
  expect(ofLength(0)).toBeUndefined();
  const longest = MAX_RECORD_BYTES - recordBytes(0);
  expect(ofLength(longest)).toBe(longest);
  expect(ofLength(longest + 1)).toBeUndefined();
});

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
