import { expect, test } from "vitest";
import { checkLine, LineError, parseExportLine } from "./export-line.ts";
import { sampleLog } from "./log.fixture.ts";

const log = sampleLog(9);
const [HEAD] = log.export({ first: 2, last: 3 });
const [PLAIN, , , , , , , , CLAIMING] = log.entries;
const NOTE = { type: "checkpoint", note: "text" };
const CLAIM = { salt: "", address: "" };
const NO_ENTRY = "is not an entry with its hashes";
const NO_CLAIM = "has no valid claimedEmail";
const NO_LOG = "is not a valid log header";

test("valid lines are accepted", () => {
  const empty = { ...HEAD, firstSequence: 1, lastSequence: 0, treeHead: [] };
  const removal = { ...NOTE, type: "removal" };
  for (const line of [HEAD, empty, PLAIN, CLAIMING, NOTE, removal])
    expect(() => checkLine(line)).not.toThrow();
});

test.each([
  [null, "has no type"],
  [undefined, "has no type"],
  ["text", "has no type"],
  [{}, "has no type"],
  [{ type: "other" }, "has an unknown type"],
  [{ ...NOTE, note: 5 }, "is not a note"],
  [{ ...NOTE, more: 1 }, "is not a note"],
  [{ ...NOTE, type: "removal", note: null }, "is not a note"],
  [{ ...PLAIN, leafHash: 5 }, NO_ENTRY],
  [{ ...PLAIN, chainHash: 5 }, NO_ENTRY],
  [{ ...PLAIN, more: 1 }, NO_ENTRY],
  [{ type: "entry", leafHash: "", chainHash: "" }, NO_ENTRY],
  [{ ...CLAIMING, more: 1 }, NO_ENTRY],
  [{ ...PLAIN, claimedEmail: undefined }, NO_ENTRY],
  [{ ...PLAIN, claimedEmail: null }, NO_CLAIM],
  [{ ...PLAIN, claimedEmail: "ab" }, NO_CLAIM],
  [{ ...PLAIN, claimedEmail: { ...CLAIM, more: 1 } }, NO_CLAIM],
  [{ ...PLAIN, claimedEmail: { ...CLAIM, salt: 5 } }, NO_CLAIM],
  [{ ...PLAIN, claimedEmail: { ...CLAIM, address: 5 } }, NO_CLAIM],
  [{ ...PLAIN, claimedEmail: { ...CLAIM, address: "\ud800" } }, NO_CLAIM],
  [{ ...HEAD, v: 2 }, "has the unknown version 2"],
  [{ ...HEAD, more: 1 }, NO_LOG],
  [{ ...HEAD, origin: 5 }, NO_LOG],
  [{ ...HEAD, chainHash: 5 }, NO_LOG],
  [{ ...HEAD, treeHead: "text" }, NO_LOG],
  [{ ...HEAD, treeHead: ["", 5] }, NO_LOG],
  [{ ...HEAD, firstSequence: 1.5 }, NO_LOG],
  [{ ...HEAD, lastSequence: 3.5 }, NO_LOG],
  [{ ...HEAD, firstSequence: 0 }, NO_LOG],
  [{ ...HEAD, firstSequence: 5 }, NO_LOG],
])("invalid line: %j", (line, problem) => {
  expect(() => checkLine(line)).toThrow(new LineError(problem));
});

test("a line is parsed only from its own bytes", () => {
  const around = Buffer.from('x{"a":1}x');
  expect(parseExportLine(around.subarray(1, -1))).toEqual({ a: 1 });
});

test.each([
  [Buffer.from("ff", "hex"), "is not UTF-8"],
  [Buffer.from("{"), "is not JSON"],
  [Buffer.from('{"a": 1}'), "is not JSON in canonical form"],
  [Buffer.from('{"a":1,"a":1}'), "is not JSON in canonical form"],
])("%j cannot be parsed", (bytes, problem) => {
  expect(() => parseExportLine(bytes)).toThrow(new LineError(problem));
});
