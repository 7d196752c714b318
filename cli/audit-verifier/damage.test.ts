import { expect, test, vi } from "vitest";
import { changesOf } from "./changes.fixture.ts";
import type { EntryLine, ExportLine } from "./export-line.ts";
import { ORIGIN, sampleKey, sampleLog, textOf } from "./log.fixture.ts";
import { NotAnExportError } from "./log-verification.ts";
import { parseVerifierKey } from "./signed-note.ts";
import { Spool } from "./spool.ts";
import type { FindingCode } from "./verdict.ts";
import { inBatches, type Trusting, verifierOf } from "./verify.fixture.ts";
import { verifyLogs } from "./verify-logs.ts";

/** Each kind of damage once, on a short log; `verify-logs.test.ts` damages each of a thousand entries. */
const SIZE = 10;
const key = sampleKey();
const log = sampleLog(SIZE, { key, isErased: (sequence) => sequence === 4 });
const { verify } = verifierOf(log);
const WHOLE = log.export({ checkpoints: [4, SIZE] });
const PART = { isPartial: true };

const note = (text: string, type = "checkpoint") => ({ type, note: text });
const entryAt = (sequence: number) => structuredClone(log.entries[sequence - 1] as EntryLine);
const timeAt = (size: number) => `2026-11-21T09:30:${String(size).padStart(2, "0")}.500Z`;

type Found = [code: FindingCode, first: number | null, last: number | null, message: string];

async function findings(lines: readonly unknown[], trust: Trusting = {}): Promise<Found[]> {
  const { result, findings: found } = await verify(lines, trust);
  expect(result === "tampered").toBe(found.length > 0);
  return found.map(({ code, firstSequence, lastSequence, message }) => [
    code,
    firstSequence,
    lastSequence,
    message,
  ]);
}

/** The findings without their messages. */
async function places(lines: readonly unknown[], trust: Trusting = {}) {
  return (await findings(lines, trust)).map(([code, first, last]) => [code, first, last]);
}

/** The findings after a change of entry 7, which is on line 8. */
async function findingsWith(change: (line: EntryLine) => void): Promise<Found[]> {
  const changed = entryAt(7);
  change(changed);
  return findings(WHOLE.with(7, changed));
}

test("an unchanged log is proven, with a complete verdict", async () => {
  const trust = { checkpoints: [SIZE, 3, 7].map((size) => log.checkpoint(size)) };
  expect(await verify(WHOLE, trust)).toEqual({
    result: "proven",
    findings: [],
    origin: ORIGIN,
    firstSequence: 1,
    lastSequence: SIZE,
    provenUpTo: SIZE,
    trustedUpTo: SIZE,
    checkpoints: { ofLog: 2, trusted: 3 },
    erasedAddresses: 1,
    caveats: [],
  });
  expect(await verify(WHOLE)).toMatchObject({
    trustedUpTo: 0,
    caveats: [
      "No checkpoint from outside the log was given. With the signing key the whole log could be rebuilt, and a cut end or a restored old backup cannot be detected.",
    ],
  });
});

test("an empty log, a log of one entry, and a repeated checkpoint are accepted", async () => {
  expect(await verify(log.export({ last: 0 }))).toMatchObject({ result: "proven", findings: [] });
  expect(await verify(log.export({ last: 1 }))).toMatchObject({ result: "proven", provenUpTo: 1 });
  expect(await findings(log.export({ checkpoints: [SIZE, SIZE] }))).toEqual([]);
});

test("an empty log without a signed checkpoint is not proven", async () => {
  const nothing = log.export({ last: 0, checkpoints: [] });
  const uncovered = "No signed checkpoint says that the log is empty: the required one is missing";
  expect(await findings(nothing)).toEqual([["uncovered", 1, 1, uncovered]]);
  expect(await findings(nothing, PART)).toEqual([["uncovered", 1, 1, uncovered]]);
  const kept = { ...PART, checkpoints: [log.checkpoint(SIZE)] };
  expect(await verify(nothing, kept)).toMatchObject({ result: "unproven", findings: [] });
});

test.each([9, 4])("any change in entry %i or its hashes is found at that entry", async (sequence) => {
  const first = sequence - 1;
  const lines = log.export({ first, last: sequence + 1, checkpoints: [] });
  const changes = changesOf(entryAt(sequence));
  expect(changes.length).toBeGreaterThan(80);
  for (const change of changes) {
    const changed = entryAt(sequence);
    change(changed);
    const [found] = await findings(lines.with(2, changed), PART);
    expect(found?.slice(1, 3), JSON.stringify(changed)).toEqual([sequence, sequence]);
  }
});

test("an entry with another form, content, leaf hash or chain hash is found", async () => {
  expect(await findingsWith(({ entry }) => (entry.id = ""))).toEqual([
    ["form", 7, 7, "Entry 7 has no valid id"],
  ]);
  expect(await findingsWith(({ entry }) => (entry.resource = "\ud800"))).toEqual([
    ["form", 7, 7, "Entry 7 is not well-formed Unicode"],
  ]);
  const leaf: Found[] = [["leaf", 7, 7, "Entry 7 does not match its leaf hash: one of them was changed"]];
  expect(await findingsWith(({ entry }) => (entry.resource = "forged"))).toEqual(leaf);
  expect(await findingsWith((line) => (line.leafHash = entryAt(6).leafHash))).toEqual(leaf);
  const unchained =
    "Entry 7 does not match its chain hash: it, or the previous entry with its hashes, was changed";
  expect(await findingsWith((line) => (line.chainHash = entryAt(6).chainHash))).toEqual([
    ["chain", 7, 7, unchained],
  ]);
});

test("an entry rewritten with its hashes does not match the next one", async () => {
  const forged = sampleLog(SIZE, {
    key,
    change: (entry) => {
      if (entry.sequence === 6) entry.resource = "forged";
    },
  });
  const verdict = await verify(WHOLE.with(6, forged.entries[5] as EntryLine));
  expect(verdict).toMatchObject({ provenUpTo: 4, findings: [{ code: "chain", firstSequence: 7 }] });
});

test("deleted, repeated, swapped, inserted: the first misplaced entry is found", async () => {
  expect(await findings(WHOLE.toSpliced(7, 1))).toEqual([
    ["missing", 7, 7, "Entry 7 is missing: entry 8 is in its place"],
  ]);
  expect(await findings(WHOLE.toSpliced(8, 0, entryAt(7)))).toEqual([["order", 7, 7, "Entry 7 is repeated"]]);
  // Entries after a bad one are not reported as unsigned: they were not checked.
  const { caveats } = await verify(WHOLE.toSpliced(7, 1), { checkpoints: [log.checkpoint(4)] });
  expect(caveats).toEqual([
    "No checkpoint from outside the log covers entries 5 to 10, which could be rewritten with the signing key.",
  ]);
  expect(await findings(WHOLE.toSpliced(8, 0, entryAt(6)))).toEqual([
    ["order", 8, 8, "Entry 6 is in the place of entry 8"],
  ]);
  expect(await places(WHOLE.toSpliced(1, 0, entryAt(3)))).toEqual([["missing", 1, 1]]);
  const part = log.export({ first: 5, checkpoints: [SIZE] });
  expect(await findings(part.toSpliced(1, 0, entryAt(4)), PART)).toEqual([
    ["order", 5, 5, "Entry 4 is in the place of entry 5"],
  ]);
  expect(await places(part.toSpliced(2, 0, entryAt(5)), PART)).toEqual([["order", 5, 5]]);
  const longer = sampleLog(SIZE + 1, { key });
  expect(await findings(WHOLE.toSpliced(SIZE + 1, 0, longer.entries[SIZE] as ExportLine))).toEqual([
    ["order", 11, 11, "Entry 11 comes after the last one of the export"],
  ]);
});

test("a repeated entry is not proven by a checkpoint of its size, because either of the two may be meant", async () => {
  const lines = log.export({ checkpoints: [4, 7, SIZE] }).toSpliced(8, 0, entryAt(7));
  const verdict = await verify(lines, { checkpoints: [log.checkpoint(7)] });
  expect(verdict).toMatchObject({ provenUpTo: 4, trustedUpTo: 0, checkpoints: { ofLog: 1, trusted: 0 } });
  expect(verdict.caveats).toContain(
    "Trusted checkpoints not compared: 0 before its beginning, 1 after its end.",
  );
});

test("a claimed address or salt that does not match its hash is found; without both it counts as erased", async () => {
  const message = "The claimed e-mail address of entry 9, or its salt, does not match its hash";
  const { claimedEmail } = entryAt(9);
  const beside = (claim: object) =>
    findings(WHOLE.with(9, { ...entryAt(9), claimedEmail: claim } as EntryLine));
  const expected = [["claimed_email", 9, 9, message]];
  expect(await beside({ ...claimedEmail, address: "other@example.com" })).toEqual(expected);
  expect(await beside({ ...claimedEmail, salt: Buffer.alloc(32).toString("base64") })).toEqual(expected);
  expect(await beside({ ...claimedEmail, salt: "AAAA" })).toEqual(expected);
  const { claimedEmail: _erased, ...without } = entryAt(9);
  expect(await verify(WHOLE.with(9, without))).toMatchObject({ result: "proven", erasedAddresses: 2 });
  const added = { ...entryAt(8), claimedEmail } as EntryLine;
  expect(await places(WHOLE.with(8, added))).toEqual([["claimed_email", 8, 8]]);
});

test("an export with a cut end, with or without checkpoints, has fewer entries than announced", async () => {
  const message = "The end of the export is missing: entries 7 to 10";
  expect(await findings(WHOLE.slice(0, 7))).toEqual([["missing", 7, 7, message]]);
  expect(await findings(WHOLE.toSpliced(7, 4))).toEqual([["missing", 7, 7, message]]);
  expect(await places(WHOLE.slice(0, 1))).toEqual([["missing", 1, 1]]);
});

test("invalid and misplaced lines are reported with their number", async () => {
  const [head] = WHOLE;
  expect(await findings(WHOLE.with(7, null as never))).toEqual([["form", 7, 7, "Line 8 has no type"]]);
  expect(await findings(WHOLE.with(SIZE, null as never))).toEqual([["form", 10, 10, "Line 11 has no type"]]);
  expect(await findings(WHOLE.toSpliced(1, 0, head as ExportLine))).toEqual([
    ["form", 1, 1, "Line 2 is out of order"],
  ]);
  expect(await findings(WHOLE.toSpliced(SIZE + 1, 0, null as never))).toEqual([
    ["form", null, null, "Line 12 has no type"],
  ]);
  const late = note(log.removal(1, 2), "removal") as ExportLine;
  expect(await findings(WHOLE.toSpliced(3, 0, late))).toEqual([["form", 3, 3, "Line 4 is out of order"]]);
  expect(await findings([...WHOLE, entryAt(SIZE)])).toEqual([
    ["form", null, null, "Line 14 is out of order"],
  ]);
  const cut = [...WHOLE.toSpliced(7, 4), null];
  expect(await findings(cut)).toEqual([
    ["missing", 7, 7, "The end of the export is missing: entries 7 to 10"],
    ["form", null, null, "Line 10 has no type"],
  ]);
  expect(await findings([...WHOLE.slice(0, -2), WHOLE[SIZE + 2], WHOLE[SIZE + 1]])).toEqual([
    ["form", null, null, "Line 13 is a checkpoint out of order"],
  ]);
});

test("at most ten bad lines are reported", async () => {
  const bad = Array.from({ length: 12 }, () => null);
  expect(await findings([...WHOLE, ...bad])).toHaveLength(10);
});

test("a log with another origin is refused", async () => {
  const other = sampleLog(3, { key, origin: "other.test/audit" });
  const [first] = await findings(other.export());
  const message = `The log is other.test/audit, but the trusted key is of ${ORIGIN}`;
  expect(first).toEqual(["log", 1, 3, message]);
});

test("the hashes before the first entry must be valid and complete", async () => {
  const [head, ...rest] = log.export({ first: 6, checkpoints: [SIZE] });
  if (head?.type !== "log") throw new Error("no head");
  const { treeHead, chainHash } = head;
  const bad = [
    { treeHead: treeHead.slice(1) },
    { treeHead: [...treeHead, chainHash] },
    { treeHead: treeHead.with(0, "AAAA") },
    { treeHead: [...treeHead, "AAAA"] },
    { chainHash: "AAAA" },
  ];
  const message = "The hashes of the entries before the first one are invalid";
  for (const change of bad)
    expect(await findings([{ ...head, ...change }, ...rest], PART)).toEqual([["log", 6, 6, message]]);
  const [start, ...all] = WHOLE;
  expect(await findings([{ ...start, chainHash }, ...all])).toEqual([["log", 1, 1, message]]);
});

test("wrong hashes before the first entry do not produce the signed root", async () => {
  const [head, ...rest] = log.export({ first: 3, checkpoints: [5, SIZE] });
  if (head?.type !== "log") throw new Error("no head");
  const forged = [{ ...head, treeHead: [head.chainHash] }, ...rest];
  const unlike = (entries: string, source: string, size: number) =>
    `With ${entries} the root differs from that of ${source} of ${timeAt(size)} (size ${size}): entries were rewritten, or the log was rebuilt`;
  expect(await findings(forged, PART)).toEqual([
    ["root", 3, 5, unlike("entries 3 to 5", "the log's own checkpoint", 5)],
  ]);
  // A checkpoint of exactly the omitted entries vouches for nothing in the file.
  expect(await findings(forged, { ...PART, checkpoints: [log.checkpoint(2)] })).toEqual([
    ["root", 2, 2, unlike("entry 2", "the trusted checkpoint", 2)],
  ]);
  const misfit = "The hashes before entry 3 differ from those of the removed entries";
  const removed = [...forged.slice(0, 1), note(log.removal(1, 2), "removal"), ...forged.slice(1)];
  expect(await findings(removed)).toEqual([["root", 1, 2, misfit]]);
});

test("removals must be consecutive from the first entry up to the export", async () => {
  const [head, ...rest] = log.export({ first: 4, checkpoints: [SIZE] });
  const removed = (...ranges: [number, number][]) => [
    head,
    ...ranges.map(([first, last]) => note(log.removal(first, last), "removal")),
    ...rest,
  ];
  const misfit = (range: string): Found => [
    "removal",
    null,
    null,
    `The removal of ${range} does not follow the previous one`,
  ];
  expect(await findings(removed([1, 2], [3, 3]))).toEqual([]);
  expect(await findings(removed())).toEqual([
    ["removal", 1, 3, "No signed removal covers the missing entries 1 to 3"],
  ]);
  expect(await findings(removed([1, 2]))).toEqual([
    ["removal", 3, 3, "No signed removal covers the missing entry 3"],
  ]);
  expect(await findings(removed([1, 2], [3, 2], [3, 3]))).toEqual([misfit("entry 3")]);
  expect(await findings(removed([1, 2], [2, 3], [3, 3]))).toEqual([misfit("entries 2 to 3")]);
  expect(await findings(removed([1, 3], [4, 4]))).toEqual([misfit("entry 4")]);
  expect(await findings(removed(), PART)).toEqual([]);
  const { caveats } = await verify(removed([1, 3]), {
    checkpoints: [SIZE, 1].map((size) => log.checkpoint(size)),
  });
  expect(caveats).toEqual([
    "Not included: entries 1 to 3 (removed by retention: up to 3). Only their hashes are proven.",
    "Trusted checkpoints not compared: 1 before its beginning, 0 after its end.",
  ]);
});

test("a log that ends before a signed size is short, unless it is partial", async () => {
  const message = (source: string) =>
    `The log ends at entry 8, and ${source} of ${timeAt(SIZE)} says that it had 10: its end was cut, or an old backup restored`;
  const cut = log.export({ last: 8, checkpoints: [8] });
  const trust = { checkpoints: [log.checkpoint(SIZE)] };
  expect(await findings(cut, trust)).toEqual([["short", 9, 9, message("the trusted checkpoint")]]);
  const behind = log.export({ last: 8, checkpoints: [8, SIZE] });
  expect(await findings(behind)).toEqual([["short", 9, 9, message("the log's own checkpoint")]]);
  expect(await verify(behind, { ...trust, ...PART })).toMatchObject({
    result: "proven",
    caveats: [
      "No checkpoint from outside the log covers entries 1 to 8, which could be rewritten with the signing key.",
      "Trusted checkpoints not compared: 0 before its beginning, 1 after its end.",
    ],
  });
});

test("a partial log is proven up to its last checkpoint, and needs one for its last entry", async () => {
  const part = log.export({ first: 2, last: 8, checkpoints: [1, 6, SIZE] });
  expect(await verify(part, { ...PART, checkpoints: [log.checkpoint(4)] })).toMatchObject({
    result: "unproven",
    findings: [],
    provenUpTo: 6,
    trustedUpTo: 4,
    checkpoints: { ofLog: 2, trusted: 1 },
    caveats: [
      "No checkpoint from outside the log covers entries 5 to 8, which could be rewritten with the signing key.",
      "Not included: entry 1. Only their hashes are proven.",
      "Chained, but not covered by a signature that could be compared: entries 7 to 8.",
    ],
  });
  const open = log.export({ last: 8, checkpoints: [6] });
  const uncovered = [
    ["uncovered", 7, 8, "No signed checkpoint covers entries 7 to 8: the required one is missing"],
  ];
  expect(await findings(open, PART)).toEqual(uncovered);
  expect(await findings(open)).toEqual(uncovered);
  const nothing = log.export({ first: 3, last: 4, checkpoints: [1, SIZE] });
  const trusted = { ...PART, checkpoints: [log.checkpoint(SIZE)] };
  expect(await verify(nothing, trusted)).toMatchObject({
    result: "unproven",
    provenUpTo: 0,
    checkpoints: { ofLog: 0, trusted: 0 },
    caveats: [
      "No checkpoint from outside the log covers entries 3 to 4, which could be rewritten with the signing key.",
      "Not included: entries 1 to 2. Only their hashes are proven.",
      "Chained, but not covered by a signature that could be compared: entries 3 to 4.",
      "Trusted checkpoints not compared: 0 before its beginning, 1 after its end.",
    ],
  });
});

test("a log rebuilt with its key differs from a trusted checkpoint, which is compared before its own", async () => {
  const rebuilt = sampleLog(SIZE, {
    key,
    change: (entry) => {
      if (entry.sequence === 5) entry.reason = "rebuilt";
    },
  });
  const trust = { checkpoints: [4, 8].map((size) => log.checkpoint(size)) };
  const message = (source: string) =>
    `With entries 5 to 8 the root differs from that of ${source} of ${timeAt(8)} (size 8): entries were rewritten, or the log was rebuilt`;
  const fork = `Two checkpoints of size 8 have different roots (${timeAt(8)} and ${timeAt(8)}): two histories were signed with the key`;
  const lines = rebuilt.export({ checkpoints: [6, 8, SIZE] });
  expect(await findings(lines, trust)).toEqual([
    ["root", 5, 8, message("the trusted checkpoint")],
    ["fork", null, null, fork],
  ]);
  expect(await verify(lines, trust)).toMatchObject({ provenUpTo: 6, trustedUpTo: 4 });
  // Without the key, its checkpoints are still reported as those of another log.
  const keyless = [
    ...rebuilt.export({ checkpoints: [] }),
    ...[4, 8, SIZE].map((size) => note(log.checkpoint(size))),
  ];
  expect(await findings(keyless)).toEqual([["root", 5, 8, message("the log's own checkpoint")]]);
  expect(await findings(keyless.toSpliced(9, 1))).toEqual([
    ["root", 5, 8, message("the log's own checkpoint")],
  ]);
});

test("a checkpoint without a trusted signature proves nothing", async () => {
  const stranger = sampleLog(SIZE);
  const [, theirs] = stranger.verifierKey.split("+");
  const [, ours] = log.verifierKey.split("+");
  const message = `The note in line 13 is signed by ${ORIGIN} ${theirs}, not by the trusted key ${ORIGIN} ${ours}`;
  const lines = WHOLE.with(SIZE + 2, note(stranger.checkpoint(SIZE)) as ExportLine);
  expect(await findings(lines)).toEqual([["signature", 5, 10, message]]);
  const covered = { checkpoints: [log.checkpoint(SIZE)] };
  expect(await findings(lines, covered)).toEqual([["signature", null, null, message]]);
  expect(await findings(WHOLE.with(7, null as never).with(SIZE + 2, note("") as ExportLine))).toEqual([
    ["form", 7, 7, "Line 8 has no type"],
    ["form", null, null, "The note in line 13 is not a signed note"],
  ]);
});

test("an empty file, and one without a log header, are not exports", async () => {
  await expect(verify([])).rejects.toThrow(new NotAnExportError("It is empty"));
  const none = new NotAnExportError("The first line is not a valid log header");
  await expect(verify(WHOLE.slice(1))).rejects.toThrow(none);
});

test("progress counts entries, and errors of the source are thrown", async () => {
  const lines = log.export({ first: 4, checkpoints: [SIZE] });
  const trust = { keys: [parseVerifierKey(log.verifierKey)], checkpoints: [], isPartial: true };
  const reported: unknown[] = [];
  const options = {
    read: (line: unknown) => line,
    trust,
    onProgress: (progress: object) => reported.push(progress),
  };
  const batches = inBatches([[], lines.slice(0, 3), lines.slice(3)]);
  expect(await verifyLogs({ ...options, batches })).toMatchObject({ result: "proven" });
  expect(reported).toEqual([
    { entries: 0, ofEntries: 0 },
    { entries: 2, ofEntries: 7 },
    { entries: 7, ofEntries: 7 },
  ]);
  const unreadable = (line: unknown) => {
    if (line === lines[3]) throw new Error("unreadable");
    return line;
  };
  const close = vi.spyOn(Spool.prototype, "close");
  const reading = verifyLogs({ batches: inBatches([lines]), read: unreadable, trust });
  await expect(reading).rejects.toThrow("unreadable");
  expect(close).toHaveBeenCalledOnce();
});

test("a log is read from text lines", async () => {
  expect(await verifierOf(log).verifyText(textOf(WHOLE))).toMatchObject({ result: "proven" });
});
