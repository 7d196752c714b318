import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, expect, test } from "vitest";
import { type BreachList, openBreachList } from "./open-breach-list.ts";
import { hashLines, newFolder, sha1, type TestList, writeTestList } from "./test-list.fixture.ts";

const open: BreachList[] = [];
afterEach(async () => {
  for (const list of open.splice(0)) await list.close();
});

async function listOf(text: string, options?: TestList) {
  const path = join(newFolder(), "list");
  const header = await writeTestList(path, text, options);
  const list = await openBreachList(path);
  open.push(list);
  return { path, header, list };
}

const hex = (password: string) => sha1(password).toString("hex");

test("any list in any order, spelling and chunks says what a set of the same hashes says", async () => {
  const line = fc.record({
    password: fc.string({ maxLength: 5 }),
    isLower: fc.boolean(),
    count: fc.constantFrom("", ":1", ":123456789"),
    end: fc.constantFrom("\n", "\r\n", "\n\n"),
  });
  const asked = fc.array(fc.string({ maxLength: 5 }), { maxLength: 50 });
  const input = fc.record({
    lines: fc.array(line, { minLength: 1, maxLength: 300 }),
    asked,
    chunkBytes: fc.integer({ min: 1, max: 200 }),
    isEndCut: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(input, async ({ lines, asked, chunkBytes, isEndCut }) => {
      const text = lines
        .map(({ password, isLower, count, end }) => {
          const digits = hex(password);
          return (isLower ? digits : digits.toUpperCase()) + count + end;
        })
        .join("");
      const { list, header } = await listOf(isEndCut ? text.trimEnd() : text, { chunkBytes });
      const reference = new Set(lines.map(({ password }) => hex(password)));
      expect(header.entries).toBe(reference.size);
      for (const password of [...asked, ...lines.map((line) => line.password)]) {
        expect(await list.contains(sha1(password))).toBe(reference.has(hex(password)));
      }
    }),
    { numRuns: 60 },
  );
}, 60_000);

test("of 100,000 hashes every tenth is found, and of as many others none", async () => {
  const passwords = Array.from({ length: 100_000 }, (_, index) => `known ${index}`);
  const { list, header, path } = await listOf(hashLines(passwords));
  expect(header).toMatchObject({ entries: 100_000, bucketBits: 11 });
  expect(readFileSync(path).length / header.entries).toBeLessThan(4.2);
  const some = passwords.filter((_, index) => index % 10 === 0);
  const countOf = async (all: readonly string[]) => {
    const found = await Promise.all(all.map((password) => list.contains(sha1(password))));
    return found.filter(Boolean).length;
  };
  expect(await countOf(some)).toBe(10_000);
  expect(await countOf(some.map((password) => `un${password}`))).toBe(0);
}, 60_000);

test("the order of the input does not matter", async () => {
  const passwords = Array.from({ length: 5_000 }, (_, index) => `${index}`);
  const builtAt = new Date();
  const lines = hashLines(passwords).split("\r\n");
  const [first, second] = await Promise.all([
    listOf(lines.join("\n"), { builtAt }),
    listOf(lines.sort().join("\n"), { builtAt }),
  ]);
  expect(readFileSync(second.path).equals(readFileSync(first.path))).toBe(true);
});

test("the header says when the list was built, and of what", async () => {
  const builtAt = new Date("2026-02-03T04:05:06.789Z");
  const { list } = await listOf(hashLines(["a"]), { label: "été 2026", builtAt });
  expect(list.header).toMatchObject({ entries: 1, bucketBits: 0, builtAt, label: "été 2026" });
});

test("hashes with a smaller count than wanted are left out, and padding always; those without a count stay", async () => {
  const text = `${hex("a")}:0\n${hex("b")}:9\n${hex("c")}:10\n${hex("d")}\n`;
  const { list } = await listOf(text, { minCount: 10 });
  const found = await Promise.all(["a", "b", "c", "d"].map((password) => list.contains(sha1(password))));
  expect(found).toEqual([false, false, true, true]);
  expect((await listOf(text)).header.entries).toBe(3);
});

test("a byte order mark is no part of the first hash", async () => {
  expect((await listOf(`\uFEFF${hex("a")}\n`)).header.entries).toBe(1);
});

const ONE = hex("a");
const many = Array.from({ length: 120_000 }, (_, index) => hex(`${index}`)).sort();

test.each<[string, string, RegExp]>([
  [
    "an NTLM list",
    `${ONE}\n${ONE.slice(0, 32)}:5\n`,
    /^line 2 is refused: 32 digits are an NTLM or MD5 hash/,
  ],
  ["SHA-256", `${ONE}${ONE.slice(0, 24)}\n`, /^line 1 is refused: 64 digits are a SHA-256 hash/],
  ["a range file", `${ONE.slice(5)}:5\n`, /^line 1 is refused: 35 digits are a line of a range file/],
  [
    "passwords",
    "correct horse battery staple and more than sixty-four characters\n",
    /^line 1 does not begin with/,
  ],
  ["no line breaks", "x".repeat(1_000_000), /^line 1 does not begin with/],
  ["a hash cut short", `${ONE}:5\n${ONE.slice(1)}:5\n`, /^line 2 does not begin with/],
  ["text after a hash", `${ONE}  -\n`, /^line 1 does not begin with/],
  ["no count", `${ONE}:\n`, /^line 1 has no number after its colon$/],
  ["a count that is none", `${ONE}:-1\n`, /^line 1 has no number after its colon$/],
  ["an endless count", `${ONE}:${"1".repeat(100)}\n`, /^line 1 does not begin with/],
  ["nothing", "\r\n\n", /^the file has no hashes$/],
  ["only padding", `${ONE}:0\n`, /^the file has no hashes$/],
  [
    "a list that is cut off",
    many.slice(0, 110_000).join("\n"),
    /begin with [EF][0-9A-F], .* The file is cut off/,
  ],
  [
    "no SHA-1 hashes",
    many.map((_hash, at) => at.toString(16).padStart(40, "0")).join("\n"),
    /not spread evenly/,
  ],
  [
    "few that are no SHA-1 hashes",
    Array.from({ length: 2_000 }, (_, at) => at.toString(16).padStart(8, "0").padEnd(40, "0")).join("\n"),
    /^2000 hashes begin with the same bits/,
  ],
])("%s is refused with its reason", async (_, text, reason) => {
  await expect(writeTestList(join(newFolder(), "list"), text)).rejects.toThrow(reason);
});

test("a label that the header has no room for is refused", async () => {
  const text = hashLines(["a"]);
  await expect(listOf(text, { label: "é".repeat(61) })).rejects.toThrow("more than 120 bytes");
  expect((await listOf(text, { label: "é".repeat(60) })).header.label).toBe("é".repeat(60));
});
