import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import type { EntryLine, ExportLine } from "./export-line.ts";
import { noteCheckpoint, ORIGIN, type SampleLog, sampleKey, sampleLog } from "./log.fixture.ts";
import { keysOf, logNumberOf } from "./log-number.ts";
import type { LoggedEntry } from "./logged-entry.ts";
import { parseVerifierKey } from "./signed-note.ts";
import type { LogsVerdict } from "./verdict.ts";
import { type Trusting, verifierOf } from "./verify.fixture.ts";

const key = sampleKey();
const ONE = `${ORIGIN}/1`;
const one = sampleLog(10, { key, origin: ONE });
const two = sampleLog(4, { key, origin: `${ORIGIN}/2` });
/** Size of log 1 that an entry of log 0 notes, by sequence. */
const NOTED = new Map([
  [3, 2],
  [6, 5],
  [9, 8],
]);
const noting = (noted: ReadonlyMap<number, number>, log = one) =>
  sampleLog(12, {
    key,
    change: (entry) => {
      const size = noted.get(entry.sequence);
      if (size !== undefined) noteCheckpoint(entry, log, size);
      if (entry.sequence === 10) noteCheckpoint(entry, two, 4);
    },
  });
const zero = noting(NOTED);
const { verifyAll } = verifierOf(zero);
const ZERO = zero.export({ checkpoints: [4, 12] });
const SECTION_1 = one.export({ checkpoints: [3, 10] });
const SECTION_2 = two.export();
const WHOLE = [...ZERO, ...SECTION_1, ...SECTION_2];

const rebuilt = (size = 10, changed = 4): SampleLog =>
  sampleLog(size, {
    key,
    origin: ONE,
    change: (entry) => {
      if (entry.sequence === changed) entry.resource = "forged";
    },
  });

/** Each log that is at fault, by the end of its origin, with its findings. */
function faults({ result, logs }: LogsVerdict) {
  const bad = logs.filter(({ findings }) => findings.length > 0);
  expect(result === "tampered").toBe(bad.length > 0);
  return bad.flatMap(({ origin, findings }) =>
    findings.map(({ code, firstSequence, lastSequence }) => [
      origin.replace(ORIGIN, ""),
      code,
      firstSequence,
      lastSequence,
    ]),
  );
}

const faultsOf = async (lines: readonly unknown[], trust: Trusting = {}) =>
  faults(await verifyAll(lines, trust));

test("the key of log n has the same public key under the log's origin", () => {
  const keys = [parseVerifierKey(zero.verifierKey)];
  const derived = keysOf(1, keys).map(({ name, id }) => ({ name, id }));
  const { name, id } = parseVerifierKey(one.verifierKey);
  expect(derived).toEqual([{ name, id }]);
  const numbers = ["", "/1", "/255", "/256", "/0", "/01", "/1/1", "/x", "1"].map((end) =>
    logNumberOf(`${ORIGIN}${end}`, keys),
  );
  expect(numbers).toEqual([0, 1, 255, ...Array(6).fill(undefined)]);
});

test("unchanged logs are proven, each with its verdict; what log 0 notes counts as log 0 is trusted", async () => {
  const { result, logs } = await verifyAll(WHOLE);
  expect(result).toBe("proven");
  expect(logs).toMatchObject([
    { origin: ORIGIN, provenUpTo: 12, checkpoints: { ofLog: 2, trusted: 0 } },
    { origin: ONE, provenUpTo: 10, trustedUpTo: 0, checkpoints: { ofLog: 2, noted: 3, trusted: 0 } },
    { origin: two.origin, provenUpTo: 4, checkpoints: { ofLog: 1, noted: 1, trusted: 0 } },
  ]);
  expect(logs[1]?.caveats).toEqual([
    "No checkpoint from outside the logs covers the entries of log 0 that note this log's checkpoints. With the signing key all logs could be rebuilt together.",
  ]);
  const trusting = await verifyAll(WHOLE, { checkpoints: [zero.checkpoint(8)] });
  expect(trusting).toMatchObject({
    result: "proven",
    logs: [{ trustedUpTo: 8 }, { trustedUpTo: 5 }, { trustedUpTo: 0 }],
  });
  expect(trusting.logs[1]?.caveats).toEqual([
    "No checkpoint from outside the log covers entries 6 to 10, which could be rewritten with the signing key.",
  ]);
  const own = await verifyAll(WHOLE, {
    checkpoints: [zero, one, two].map((log) => log.checkpoint(log.entries.length)),
  });
  expect(own.logs.map(({ caveats, trustedUpTo }) => [trustedUpTo, caveats])).toEqual([
    [12, []],
    [10, []],
    [4, []],
  ]);
});

test("a changed entry in log 1 is named", async () => {
  const at = ZERO.length + 7;
  const changed = structuredClone(WHOLE[at] as EntryLine);
  changed.entry.resource = "forged";
  expect(await faultsOf(WHOLE.with(at, changed))).toEqual([["/1", "leaf", 7, 7]]);
  const { findings } = (await verifyAll(WHOLE.with(at, null as never))).logs[1] ?? {};
  expect(findings).toMatchObject([{ code: "form", firstSequence: 7, message: `Line ${at + 1} has no type` }]);
});

test("log 1 rebuilt with the signing key has not the root that log 0 notes", async () => {
  const lines = [...ZERO, ...rebuilt().export({ checkpoints: [3, 4, 10] }), ...SECTION_2];
  const { logs } = await verifyAll(lines);
  // Its own checkpoint of size 4 does not narrow the range, the noted one of size 2 does.
  expect(logs[1]?.findings).toEqual([
    {
      code: "root",
      firstSequence: 3,
      lastSequence: 5,
      message:
        "With entries 3 to 5 the root differs from that of the noted checkpoint of entry 6 of log 0 (size 5): entries were rewritten, or the log was rebuilt",
    },
  ]);
  // Behind the last noted size only a checkpoint of its own shows it.
  const late = [...ZERO, ...rebuilt(10, 9).export(), ...SECTION_2];
  expect(await faultsOf(late)).toEqual([]);
  expect(await faultsOf(late, { checkpoints: [one.checkpoint(9)] })).toEqual([["/1", "root", 1, 9]]);
  const noted = noting(new Map([[2, 8]]), rebuilt()).export();
  expect((await verifyAll([...noted, ...SECTION_1, ...SECTION_2], {})).logs[1]).toMatchObject({
    result: "tampered",
    findings: [{ code: "root", firstSequence: 1, lastSequence: 8 }],
  });
});

test("two heads of one size that differ are a fork", async () => {
  const lines = [...ZERO, ...rebuilt().export({ checkpoints: [5, 10] }), ...SECTION_2];
  expect(await faultsOf(lines)).toContainEqual(["/1", "fork", null, null]);
});

test("the cut end of log 1, and an old backup of it, are short of what log 0 notes", async () => {
  const cut = one.export({ last: 7, checkpoints: [3, 7] });
  const { logs } = await verifyAll([...ZERO, ...cut, ...SECTION_2]);
  expect(logs[1]?.findings).toMatchObject([
    {
      code: "short",
      firstSequence: 8,
      message:
        "The log ends at entry 7, and the noted checkpoint of entry 9 of log 0 says that it had 8: its end was cut, or an old backup restored",
    },
  ]);
  expect(await faultsOf([...ZERO, ...one.export({ last: 8 }), ...SECTION_2])).toEqual([]);
  const part = await verifyAll([...ZERO, ...cut, ...SECTION_2], { isPartial: true });
  expect(part).toMatchObject({ result: "proven" });
  expect(part.logs[1]?.caveats).toContain(
    "Noted checkpoints not compared: 0 before its beginning, 1 after its end.",
  );
  expect(await faultsOf([...ZERO, ...SECTION_1.slice(0, 8), ...SECTION_2])).toEqual([
    ["/1", "missing", 8, 8],
  ]);
});

test("a log that is cut out entirely: of several a finding, of log 0 alone a caveat, of the running ones a finding", async () => {
  expect(await faultsOf([...ZERO, ...SECTION_2])).toEqual([["/1", "missing", 1, 1]]);
  expect(await faultsOf([...ZERO, ...SECTION_1])).toEqual([["/2", "missing", 1, 1]]);
  const alone = await verifyAll(ZERO);
  expect(alone).toMatchObject({ result: "proven", logs: [{ origin: ORIGIN }] });
  expect(alone.logs[0]?.caveats.slice(1)).toEqual([
    `Not included: the log ${ONE}. Entry 3 of log 0 notes a checkpoint of it.`,
    `Not included: the log ${two.origin}. Entry 10 of log 0 notes a checkpoint of it.`,
  ]);
  expect(await faultsOf(ZERO, { isWhole: true })).toEqual([
    ["/1", "missing", 1, 1],
    ["/2", "missing", 1, 1],
  ]);
  const part = await verifyAll([...ZERO, ...SECTION_2], { isPartial: true });
  expect(part.result).toBe("proven");
  expect(part.logs.flatMap(({ caveats }) => caveats)).toContainEqual(
    expect.stringContaining(`the log ${ONE}.`),
  );
  // A trusted checkpoint says as well that there is a log.
  const unnoted = sampleLog(3, { key }).export();
  const trust = { checkpoints: [one.checkpoint(1)] };
  expect(await faultsOf([...unnoted, ...SECTION_2], trust)).toEqual([["/1", "missing", 1, 1]]);
  expect((await verifyAll(unnoted, trust)).logs[0]?.caveats).toContainEqual(
    expect.stringContaining(`the log ${ONE}.`),
  );
});

test("swapped and repeated sections, and several without log 0, are found", async () => {
  expect(await faultsOf([...SECTION_1, ...ZERO, ...SECTION_2])).toEqual([["", "order", null, null]]);
  expect(await faultsOf([...ZERO, ...SECTION_2, ...SECTION_1])).toEqual([["/1", "order", null, null]]);
  expect(await faultsOf([...ZERO, ...SECTION_1, ...SECTION_1, ...SECTION_2])).toEqual([
    ["/1", "order", null, null],
  ]);
  expect(await faultsOf([...WHOLE, ...SECTION_1])).toEqual([["/1", "order", null, null]]);
  expect(await faultsOf([...WHOLE, ...ZERO])).toEqual([["", "order", null, null]]);
  expect(await faultsOf([...SECTION_1, ...SECTION_2])).toEqual([["", "missing", 1, 1]]);
  // The second header comes before the log has ended.
  expect(await faultsOf(WHOLE.toSpliced(ZERO.length + 4, 0, SECTION_1[0] as ExportLine))).toEqual([
    ["/1", "form", 4, 4],
  ]);
});

test("a section of a foreign log, and of one that is called as another, are found", async () => {
  for (const origin of ["other.test/audit/1", `${ORIGIN}/256`, `${ORIGIN}/0`, `${ORIGIN}/01`]) {
    const [found] = await faultsOf([...WHOLE, ...sampleLog(3, { key, origin }).export()]);
    expect(found, origin).toEqual([origin.replace(ORIGIN, ""), "log", 1, 3]);
  }
  const [head, ...rest] = SECTION_1;
  const renamed = [{ ...head, origin: `${ORIGIN}/3` }, ...rest];
  expect(await faultsOf([...WHOLE, ...renamed])).toContainEqual(["/3", "signature", 1, 10]);
  const stranger = sampleLog(3, { origin: `${ORIGIN}/3` }).export();
  expect(await faultsOf([...WHOLE, ...stranger])).toEqual([["/3", "signature", 1, 3]]);
});

test("a noted checkpoint that is forged, added or taken away is found in log 0, and counts for nothing", async () => {
  const forged = noting(NOTED, rebuilt());
  const inPlace = [...ZERO.with(6, forged.entries[5] as EntryLine), ...SECTION_1, ...SECTION_2];
  expect(await faultsOf(inPlace)).toEqual([["", "chain", 7, 7]]);
  const changed = structuredClone(ZERO[6] as EntryLine);
  changed.entry.reason = (forged.entries[5] as EntryLine).entry.reason;
  expect(await faultsOf([...ZERO.with(6, changed), ...SECTION_1, ...SECTION_2])).toEqual([
    ["", "leaf", 6, 6],
  ]);
  expect(await faultsOf([...ZERO.toSpliced(6, 1), ...SECTION_1, ...SECTION_2])).toEqual([
    ["", "missing", 6, 6],
  ]);
  // A note with hashes of its own, before the entry that does not fit it, names no log that must be there.
  const three = sampleLog(1, { key, origin: `${ORIGIN}/3` });
  const inventing = sampleLog(6, {
    key,
    change(entry) {
      if (entry.sequence === 3) noteCheckpoint(entry, one, 2);
      if (entry.sequence === 6) noteCheckpoint(entry, three, 1);
    },
  });
  const invented = inventing.entries[5] as EntryLine;
  expect(await faultsOf([...ZERO.with(6, invented), ...SECTION_1, ...SECTION_2])).toEqual([
    ["", "chain", 7, 7],
  ]);
  // The notes after the bad entry prove nothing: neither that log 1 is short, nor that log 2 is missing.
  const { logs } = await verifyAll([...ZERO.with(6, changed), ...one.export({ last: 2 })]);
  expect(logs.map(({ result, origin }) => [origin, result])).toEqual([
    [ORIGIN, "tampered"],
    [ONE, "proven"],
  ]);
  expect(logs[1]?.checkpoints).toMatchObject({ noted: 1 });
});

test("one log with the key of its own, or with that of log 0, is verified as a log alone", async () => {
  expect((await verifierOf(one).verifyAll(SECTION_1)).logs).toMatchObject([
    { result: "proven", checkpoints: { ofLog: 2, trusted: 0 } },
  ]);
  const { result, logs } = await verifyAll(SECTION_1, { checkpoints: [one.checkpoint(10)] });
  expect([result, logs[0]?.caveats, logs[0]?.trustedUpTo]).toEqual(["proven", [], 10]);
});

/** Log 0 that notes sizes of a log, one an entry, and in its end an entry of its own. */
function notesOf(log: SampleLog, sizes: readonly number[], change: (entry: LoggedEntry) => void = () => {}) {
  return sampleLog(sizes.length, {
    key,
    change: (entry) => {
      noteCheckpoint(entry, log, sizes[entry.sequence - 1] ?? 0);
      change(entry);
    },
  }).export();
}

test("notes out of their order, and repeated ones, are compared as well", async () => {
  const sizes = [3, 5, 5, 4, 8, 7, 6, 9, 2];
  expect(await verifyAll([...notesOf(one, sizes), ...SECTION_1])).toMatchObject({
    result: "proven",
    logs: [{}, { checkpoints: { noted: sizes.length } }],
  });
  const wrong = rebuilt();
  const only4 = notesOf(one, sizes, (entry) => {
    if (entry.sequence === 4) noteCheckpoint(entry, wrong, 4);
  });
  expect(await faultsOf([...only4, ...SECTION_1])).toEqual([["/1", "root", 4, 4]]);
  const backwards = Array.from({ length: 17 }, (_, index) => 18 - index);
  const long = sampleLog(20, { key, origin: ONE });
  expect(await faultsOf([...notesOf(long, backwards.slice(1)), ...long.export()])).toEqual([]);
  expect(await faultsOf([...notesOf(long, backwards), ...long.export()])).toEqual([
    ["/1", "order", null, null],
  ]);
});

test("an entry that notes none of these logs is a caveat; one of another producer notes nothing", async () => {
  const cases: [number, Partial<LoggedEntry>][] = [
    [1, { resource: "other.test/audit/1" }],
    [1, { resource: ORIGIN }],
    [1, { reason: "5" }],
    [1, { reason: `5 ${"A".repeat(44)}` }],
    [1, { reason: `05 ${one.root(5).toString("base64")}` }],
    [1, { reason: `5 ${one.root(5).toString("base64")} ` }],
    [0, { producer: "gateway" }],
    [0, { action: "audit.searched" }],
  ];
  for (const [strange, members] of cases) {
    const lines = notesOf(one, [5], (entry) => Object.assign(entry, members));
    const { result, logs } = await verifyAll(lines);
    const expected = strange === 0 ? [] : ["Entries that note a checkpoint of none of these logs: 1."];
    expect([result, logs[0]?.caveats.slice(1)], JSON.stringify(members)).toEqual(["proven", expected]);
  }
});

test("thousands of notes are compared from a file, which is removed", async () => {
  const folder = mkdtempSync(join(tmpdir(), "gatehouse-noted-"));
  vi.stubEnv("TMPDIR", folder);
  try {
    const sizes = Array.from({ length: 5_000 }, (_, index) => 1 + Math.floor(index / 500));
    const lines = notesOf(one, sizes);
    expect(await verifyAll([...lines, ...SECTION_1])).toMatchObject({
      result: "proven",
      logs: [{}, { checkpoints: { noted: 5_000 } }],
    });
    expect(await faultsOf([...lines, ...rebuilt(10, 10).export()])).toEqual([
      ["/1", "root", 10, 10],
      ["/1", "fork", null, null],
    ]);
    expect(readdirSync(folder)).toEqual([]);
  } finally {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true });
  }
});
