import { appendFileSync, mkdirSync, readFileSync, renameSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { HEADER_BYTES } from "./list-format.ts";
import { openBreachList, readListHeader } from "./open-breach-list.ts";
import { hashLines, newFolder, sha1, writeTestList } from "./test-list.fixture.ts";

let path: string;
let bytes: Buffer;

beforeEach(async () => {
  path = join(newFolder(), "breached.list");
  await writeTestList(path, hashLines(["a", "b", "c"]));
  bytes = readFileSync(path);
});

function changed(at: number, value: number): Buffer {
  const copy = Buffer.from(bytes);
  copy[at] = value;
  return copy;
}

/** The message after the file's name. */
async function refusal(content: Buffer): Promise<string> {
  writeFileSync(path, content);
  const error = await openBreachList(path).then(
    () => new Error("it was accepted"),
    (refused: Error) => refused,
  );
  expect(error.message.startsWith(path), error.message).toBe(true);
  return error.message.slice(path.length + 1);
}

test("a change of any byte, whichever it is, is refused", async () => {
  for (let at = 0; at < bytes.length; at += 1) {
    for (const value of [(bytes[at] ?? 0) ^ 1, (bytes[at] ?? 0) ^ 0x80, (bytes[at] ?? 0) ^ 0xff]) {
      expect(await refusal(changed(at, value)), `byte ${at}`).toMatch(/^cannot be used: it/);
    }
  }
});

test("a file that ends earlier is refused, wherever it ends", async () => {
  for (let length = 0; length < bytes.length; length += 1) {
    expect(await refusal(bytes.subarray(0, length)), `${length} bytes`).toMatch(
      length < 8 ? /it is no breach list$/ : /it is truncated: it has \d+ of \d+ bytes/,
    );
  }
});

test("a longer file is refused", async () => {
  const longer = Buffer.concat([bytes, Buffer.of(0)]);
  expect(await refusal(longer)).toBe(
    `cannot be used: it has ${bytes.length + 1} instead of ${bytes.length} bytes`,
  );
});

test.each<[string, () => Buffer, string]>([
  [
    "another format version",
    () => changed(12, 2),
    "it has format version 2, and this program reads version 1",
  ],
  [
    "another byte order",
    () => Buffer.concat([bytes.subarray(0, 8), Buffer.from(bytes.subarray(8)).swap32()]),
    "it was written in another byte order",
  ],
  [
    "the hashes themselves",
    () => Buffer.from(hashLines(["a"])),
    "it is a list of hashes: make a breach list of it with gatehouse breach-list build",
  ],
  ["another program's file", () => readFileSync(process.execPath).subarray(0, 4_096), "it is no breach list"],
  [
    "a transfer as text",
    () => Buffer.from(bytes.toString("latin1").replaceAll("\r\n", "\n"), "latin1"),
    "it is no breach list",
  ],
  [
    "a damaged remainder",
    () => changed(HEADER_BYTES, (bytes[HEADER_BYTES] ?? 0) ^ 1),
    "it is damaged: its checksum is wrong",
  ],
])("%s is refused by name", async (_, content, reason) => {
  expect(await refusal(content())).toBe(`cannot be used: ${reason}`);
});

test("what is no file, or not there, is refused by name", async () => {
  mkdirSync(join(path, "..", "folder"));
  await expect(openBreachList(join(path, "..", "folder"))).rejects.toThrow("cannot be read (EISDIR)");
  await expect(openBreachList(`${path}.absent`)).rejects.toThrow(`${path}.absent cannot be read (ENOENT)`);
});

test("the header alone is verified without the rest", () => {
  expect(readListHeader(path)).toMatchObject({ entries: 3, label: "test" });
  writeFileSync(path, changed(HEADER_BYTES, (bytes[HEADER_BYTES] ?? 0) ^ 1));
  expect(readListHeader(path).entries).toBe(3);
  truncateSync(path, bytes.length - 1);
  expect(() => readListHeader(path)).toThrow(`${path} cannot be used: it is truncated`);
});

test("an open list goes on after its file was replaced", async () => {
  const list = await openBreachList(path);
  writeFileSync(`${path}.new`, "another");
  renameSync(`${path}.new`, path);
  expect(await Promise.all([list.contains(sha1("a")), list.contains(sha1("z"))])).toEqual([true, false]);
  await list.close();
});

test("an open list whose file was changed in place answers no more", async () => {
  const list = await openBreachList(path);
  appendFileSync(path, "more");
  await expect(list.contains(sha1("a"))).rejects.toThrow("was changed in place");
  await list.close();
});

test("closing waits for look-ups", async () => {
  const list = await openBreachList(path);
  const found = Array.from({ length: 50 }, () => list.contains(sha1("b")));
  await list.close();
  expect(new Set(await Promise.all(found))).toEqual(new Set([true]));
});
