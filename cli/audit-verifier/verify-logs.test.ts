import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { changesOf } from "./changes.fixture.ts";
import type { EntryLine, ExportLine } from "./export-line.ts";
import { sampleKey, sampleLog, textOf } from "./log.fixture.ts";
import { NotAnExportError } from "./log-verification.ts";
import { type Trusting, verifierOf } from "./verify.fixture.ts";

const SIZE = 1_000;
const key = sampleKey();
const log = sampleLog(SIZE, { key });
const { verify, verifyText } = verifierOf(log);

/** What the verdict names: code, first and last sequence. */
async function named(lines: readonly unknown[], trust: Trusting = {}) {
  const { result, findings } = await verify(lines, trust);
  const [first] = findings;
  return [result, first?.code, first?.firstSequence, first?.lastSequence];
}

async function namedCode(lines: readonly unknown[]) {
  return (await named(lines)).slice(0, 2);
}

const exact = (code: string, sequence: number) => ["tampered", code, sequence, sequence];

test("an unchanged log is proven, and the verdict says what is not", async () => {
  expect(await verifyText(textOf(log.export({ checkpoints: [1, 2, 3, 500, SIZE] })))).toMatchObject({
    result: "proven",
    findings: [],
    provenUpTo: SIZE,
    trustedUpTo: 0,
    checkpoints: { ofLog: 5, trusted: 0 },
    erasedAddresses: 100,
    caveats: [expect.stringMatching(/^No checkpoint from outside the log was given/)],
  });
  const trusted = { checkpoints: [log.checkpoint(SIZE), log.checkpoint(7)] };
  expect(await verify(log.export(), trusted)).toMatchObject({ trustedUpTo: SIZE, caveats: [] });
  expect(await verify(log.export(), { checkpoints: [log.checkpoint(800)] })).toMatchObject({
    result: "proven",
    trustedUpTo: 800,
    caveats: [expect.stringMatching(/covers entries 801 to 1000/)],
  });
});

test("a single missing or unproven entry at the end is found", async () => {
  expect(await named(log.export().toSpliced(SIZE, 1))).toEqual(exact("missing", SIZE));
  expect(await verify(log.export(), { checkpoints: [log.checkpoint(SIZE - 1)] })).toMatchObject({
    result: "proven",
    caveats: [expect.stringMatching(/^No checkpoint from outside the log covers entry 1000,/)],
  });
  const lines = log.export({ checkpoints: [SIZE - 1, SIZE] });
  const forged = lines.with(-1, {
    type: "checkpoint",
    note: log.checkpoint(SIZE).replace("— ", ""),
  });
  expect(await verify(forged)).toMatchObject({
    result: "tampered",
    provenUpTo: SIZE - 1,
    caveats: expect.arrayContaining([expect.stringContaining("entry 1000")]),
  });
});

/** A window around an entry is verified a thousand times faster than the log, and as exactly. */
/** The first and the last ones, over several edges of the tree. */
const SAMPLE = Array.from({ length: SIZE }, (_, index) => index + 1).filter(
  (sequence) => sequence <= 150 || sequence > 900,
);

function windowAround(sequence: number) {
  const first = Math.max(1, sequence - 2);
  const last = Math.min(SIZE, sequence + 2);
  return { lines: log.export({ first, last, checkpoints: [] }), at: 1 + sequence - first };
}

test("any change in an entry or beside it is named with that entry: a tenth of the changes for each of 250", {
  tags: "exhaustive",
  timeout: 300_000,
}, async () => {
  let tried = 0;
  for (const sequence of SAMPLE) {
    const { lines, at } = windowAround(sequence);
    const original = lines[at] as EntryLine;
    // The last digit chooses, so that every change is tried with 25 entries.
    for (const [index, change] of changesOf(original).entries()) {
      if (index % 10 !== sequence % 10) continue;
      const changed = structuredClone(original);
      change(changed);
      const tampered = lines.with(at, changed);
      const { result, findings } = await verify(tampered, { isPartial: true });
      const found = [result, findings[0]?.firstSequence, findings[0]?.lastSequence];
      // A sequence that says the one before or after is a swap or a gap: it is named as such.
      const said = changed.entry?.sequence === sequence + 1 ? "missing" : undefined;
      if (said !== undefined) expect(findings[0]?.code).toBe(said);
      expect(found, JSON.stringify(changed)).toEqual(["tampered", sequence, sequence]);
      tried += 1;
    }
  }
  expect(tried).toBeGreaterThan(2_250);
});

test("an entry rewritten with its hashes: it or the next one is found, and earlier ones stay proven", async () => {
  for (let sequence = 1; sequence < SIZE; sequence += 97) {
    const forged = sampleLog(SIZE, {
      key,
      change: (entry) => {
        if (entry.sequence === sequence) entry.resource = "forged";
      },
    });
    const proven = Math.floor((sequence - 1) / 10) * 10;
    const lines = log.export({ checkpoints: [proven, SIZE] });
    lines[sequence] = forged.export()[sequence] as ExportLine;
    expect(await named(lines)).toEqual(exact("chain", sequence + 1));
    expect(await verify(lines)).toMatchObject({ provenUpTo: proven });
  }
});

test("deleted, swapped, inserted, cut: the first bad entry is found, for each of 250", {
  tags: "exhaustive",
  timeout: 120_000,
}, async () => {
  const whole = log.export();
  for (const sequence of SAMPLE) {
    if (sequence % 50 === 0) {
      expect(await named(whole.toSpliced(sequence, 1))).toEqual(exact("missing", sequence));
    }
    const { lines, at } = windowAround(sequence);
    const name = (tampered: readonly unknown[]) => named(tampered, { isPartial: true });
    const line = lines[at] as EntryLine;
    expect(await name(lines.toSpliced(at, 0, line))).toEqual(exact("order", sequence));
    const stranger = structuredClone(line);
    stranger.entry.id = stranger.entry.id.replace("01936d3e", "01936d3f");
    expect(await name(lines.toSpliced(at, 0, stranger))).toEqual(exact("leaf", sequence));
    expect(await name(lines.slice(0, at))).toEqual(exact("missing", sequence));
    expect(await name([...lines.slice(0, at), whole.at(-1)])).toEqual(exact("missing", sequence));
    if (sequence === SIZE) continue;
    const swapped = lines.with(at, lines[at + 1] as ExportLine).with(at + 1, line);
    expect(await name(swapped)).toEqual(exact("missing", sequence));
  }
});

test("an entry after the last one", async () => {
  const longer = sampleLog(SIZE + 1, { key });
  const lines = log.export();
  lines.splice(SIZE + 1, 0, longer.export()[SIZE + 1] as ExportLine);
  expect(await named(lines)).toEqual(exact("order", SIZE + 1));
});

test("a cut tail with a new header, and an old backup: shorter than a signed size", async () => {
  for (const last of [0, 1, 512, 999]) {
    const cut = [...log.export({ last, checkpoints: [last] })];
    const trust = { checkpoints: [log.checkpoint(SIZE)] };
    expect(await named(cut, trust)).toEqual(exact("short", last + 1));
    expect(await named(log.export({ last, checkpoints: [SIZE] }))).toEqual(exact("short", last + 1));
    // Nothing in it says so: only a checkpoint from outside does.
    expect(await verify(cut)).toMatchObject({
      result: "proven",
      caveats: expect.arrayContaining([expect.stringMatching(/^No checkpoint from outside/)]),
    });
  }
  expect(await named(log.export({ checkpoints: [] }))).toEqual(["tampered", "uncovered", 1, SIZE]);
  expect(await named(log.export({ checkpoints: [900] }))).toEqual(["tampered", "uncovered", 901, SIZE]);
});

test("a log rebuilt with its key: between the last matching trusted checkpoint and the first other one", async () => {
  const rebuilt = sampleLog(SIZE, {
    key,
    change: (entry) => {
      if (entry.sequence === 450) entry.actor.userId = "somebody else";
    },
  });
  const lines = rebuilt.export({ checkpoints: [100, 449, 450, 500, SIZE] });
  expect(await verify(lines)).toMatchObject({ result: "proven" });
  const checkpoints = [100, 300, 400, 600, 800, SIZE].map((size) => log.checkpoint(size));
  expect(await named(lines, { checkpoints })).toEqual(["tampered", "root", 401, 600]);
  expect(await verify(lines, { checkpoints })).toMatchObject({ trustedUpTo: 400 });
  const { findings } = await verify(lines, { checkpoints: [450, SIZE].map((size) => log.checkpoint(size)) });
  expect(findings.map(({ code }) => code)).toEqual(["root", "fork", "fork"]);
  expect(findings[0]).toMatchObject({ firstSequence: 1, lastSequence: 450 });
});

test("a log rebuilt without its key fails at its own checkpoints, before a later bad entry", async () => {
  const rebuilt = sampleLog(SIZE, {
    key,
    change: (entry) => {
      if (entry.sequence === 450) entry.outcome = "failure";
    },
  });
  const lines = [
    ...rebuilt.export({ checkpoints: [] }),
    ...[400, 500, SIZE].map((size) => ({ type: "checkpoint", note: log.checkpoint(size) })),
  ];
  expect(await named(lines)).toEqual(["tampered", "root", 401, 500]);
  expect(await named(lines.toSpliced(700, 1))).toEqual(["tampered", "root", 401, 500]);
});

test("a replaced key: its checkpoints prove nothing", async () => {
  const other = sampleLog(SIZE);
  const lines = [
    ...log.export({ checkpoints: [] }),
    { type: "checkpoint", note: other.checkpoint(SIZE, log.root(SIZE)) },
  ];
  expect(await named(lines)).toEqual(["tampered", "signature", 1, SIZE]);
  expect(await named(lines, { checkpoints: [log.checkpoint(600)] })).toEqual([
    "tampered",
    "signature",
    601,
    SIZE,
  ]);
  const covered = { checkpoints: [log.checkpoint(SIZE)] };
  expect(await named(lines, covered)).toEqual(["tampered", "signature", null, null]);
  expect(await named(other.export())).toEqual(["tampered", "signature", 1, SIZE]);
  expect(await namedCode(sampleLog(3, { key, origin: "other.test/audit" }).export())).toEqual([
    "tampered",
    "log",
  ]);
});

test("a changed checkpoint: text, root, size, signature, order", async () => {
  const lines = log.export({ checkpoints: [500, SIZE] });
  const at = SIZE + 1;
  const note = log.checkpoint(500);
  for (const bad of [note.replace("\n500\n", "\n501\n"), note.replace("time 2026", "time 2025")]) {
    expect(await namedCode(lines.with(at, { type: "checkpoint", note: bad }))).toEqual([
      "tampered",
      "signature",
    ]);
  }
  const forked = { type: "checkpoint" as const, note: log.checkpoint(500, log.root(499)) };
  expect(await named(lines.with(at, forked))).toEqual(["tampered", "root", 1, 500]);
  const { findings } = await verify(lines.toSpliced(at + 1, 0, forked));
  expect(findings.map(({ code }) => code)).toEqual(["root", "fork"]);
  expect(await namedCode([...lines.slice(0, at), lines[at + 1], lines[at]])).toEqual(["tampered", "form"]);
});

test("removals: signed, without gaps, and of the same tree", async () => {
  const kept = { first: 301, checkpoints: [400, SIZE] };
  expect(await verify(log.export({ ...kept, removedUpTo: [120, 300] }))).toMatchObject({
    result: "proven",
    caveats: expect.arrayContaining([
      expect.stringMatching(/entries 1 to 300 \(removed by retention: up to 300\)/),
    ]),
  });
  expect(await named(log.export(kept))).toEqual(["tampered", "removal", 1, 300]);
  expect(await named(log.export({ ...kept, removedUpTo: [120] }))).toEqual(["tampered", "removal", 121, 300]);
  expect(await namedCode(log.export({ ...kept, removedUpTo: [301] }))).toEqual(["tampered", "removal"]);
  expect(await verify(log.export(kept), { isPartial: true })).toMatchObject({ result: "proven" });
  const bad = log.export({ ...kept, removedUpTo: [300] });
  const other = sampleLog(300, { key, change: (entry) => (entry.reason = "other") });
  expect(await named(bad.with(1, { type: "removal", note: other.removal(1, 300) }))).toEqual([
    "tampered",
    "root",
    1,
    300,
  ]);
  const { findings } = await verify(bad.with(1, { type: "removal", note: log.checkpoint(300) }));
  expect(findings.map(({ code }) => code)).toEqual(["removal", "form"]);
});

test("a part that begins later: the hashes before it are compared with the signed root", async () => {
  const lines = log.export({ first: 700, last: 900, checkpoints: [800, 900] });
  const part = { isPartial: true };
  expect(
    await verify(lines, { ...part, checkpoints: [log.checkpoint(699), log.checkpoint(3)] }),
  ).toMatchObject({
    result: "proven",
    trustedUpTo: 699,
  });
  const [head] = lines;
  if (head?.type !== "log") throw new Error("no head");
  const { treeHead } = head;
  const otherHead = { ...head, treeHead: treeHead.with(0, log.root(1).toString("base64")) };
  expect(await named(lines.with(0, otherHead), part)).toEqual(["tampered", "root", 700, 800]);
  expect(await named(lines.with(0, { ...head, treeHead: treeHead.slice(1) }), part)).toEqual(
    exact("log", 700),
  );
  const otherChain = { ...head, chainHash: log.root(1).toString("base64") };
  expect(await named(lines.with(0, otherChain), part)).toEqual(exact("chain", 700));
});

test("a complete log whose chain starts from a forged hash", async () => {
  const [header, ...rest] = log.export({ checkpoints: [SIZE] });
  let chainHash: Buffer = Buffer.alloc(32, 7);
  const forged = rest.map((line) => {
    if (line.type !== "entry") return line;
    chainHash = createHash("sha256").update(chainHash).update(Buffer.from(line.leafHash, "base64")).digest();
    return { ...line, chainHash: chainHash.toString("base64") };
  });
  const start = { ...header, chainHash: Buffer.alloc(32, 7).toString("base64") };
  expect(await namedCode([start, ...forged])).toEqual(["tampered", "log"]);
});

test("a part that ends between two checkpoints is not proven to its end, and says so", async () => {
  const lines = log.export({ last: 850, checkpoints: [800, 900] });
  expect(await verify(lines, { isPartial: true })).toMatchObject({
    result: "unproven",
    provenUpTo: 800,
    caveats: expect.arrayContaining([expect.stringMatching(/entries 801 to 850/)]),
  });
});

test("a line that parsers read differently is refused", async () => {
  const text = textOf(log.export());
  const cases: [string, string | Buffer][] = [
    ["a member twice", text.replace('"sequence":7,', '"sequence":7,"sequence":7,')],
    ["a blank", text.replace('"sequence":7,', '"sequence": 7,')],
    ["another spelling of a number", text.replace('"sequence":7,', '"sequence":7.0,')],
    ["a needless escape", text.replace('"resource":"payment-7"', '"resource":"p\\u0061yment-7"')],
    ["minus zero", text.replace('"sequence":7,', '"sequence":-0,')],
    ["no JSON", text.replace('{"type":"entry","entry":{"v":1,"sequence":7,', "{")],
    [
      "no UTF-8",
      Buffer.from(
        Buffer.from(text).toString("latin1").replace('"resource":"payment-7"', '"resource":"\xff"'),
        "latin1",
      ),
    ],
  ];
  for (const [name, tampered] of cases) {
    const { findings } = await verifyText(tampered);
    expect(findings[0], name).toMatchObject({ code: "form", firstSequence: 7, lastSequence: 7 });
  }
  await expect(verifyText(text.replaceAll("\n", "\r\n"))).rejects.toThrow(NotAnExportError);
});

test("ill-formed strings are refused, even with a matching hash", async () => {
  const withReplacement = sampleLog(3, { key, change: (entry) => (entry.userAgent = "\ufffd") });
  const lines = withReplacement.export();
  (lines[2] as EntryLine).entry.userAgent = "\ud800"; // UTF-8 encoders write U+FFFD for it
  expect((await verify(lines)).findings[0]).toMatchObject({ firstSequence: 2 });
  const escaped = sampleLog(3, { key, change: (entry) => (entry.userAgent = "\\ud800 \u0001") });
  expect(await verify(escaped.export())).toMatchObject({ result: "proven" });
  const lone = sampleLog(3, { key, change: (entry) => (entry.userAgent = "\ud800") }); // hashed as an escape
  expect(await named(lone.export())).toEqual(exact("form", 1));
  const zero = sampleLog(3, { key });
  const minus = zero.export();
  (minus[1] as EntryLine).entry.httpStatus = -0;
  expect((await verify(minus)).findings[0]).toMatchObject({ code: "form", firstSequence: 1 });
});

test("no false alarm: any log, part, checkpoints, erased addresses and removals", {
  tags: "exhaustive",
}, async () => {
  const sizes = fc.integer({ min: 0, max: 70 });
  const plan = fc.record({
    size: sizes,
    cut: fc.tuple(fc.nat(), fc.nat()),
    ofLog: fc.array(fc.nat(), { maxLength: 6 }),
    trusted: fc.array(fc.nat(), { maxLength: 6 }),
    removals: fc.array(fc.nat(), { maxLength: 3 }),
    erased: fc.func(fc.boolean()),
    text: fc.string({ unit: "binary", maxLength: 20 }),
  });
  await fc.assert(
    fc.asyncProperty(plan, async ({ size, cut, ofLog, trusted, removals, erased, text }) => {
      const random = sampleLog(size, { key, isErased: erased, change: (entry) => (entry.userAgent = text) });
      const first = 1 + (cut[0] % (size + 1));
      const last = first - 1 + (cut[1] % (size - first + 2));
      const within = (from: number, to: number, numbers: readonly number[]) =>
        [...new Set(numbers.map((number) => from + (number % (to - from + 1))))].sort((a, b) => a - b);
      const checkpoints = [...new Set([...within(0, last, ofLog), last])];
      const removedUpTo = first > 1 ? [...new Set([...within(1, first - 1, removals), first - 1])] : [];
      const lines = random.export({ first, last, checkpoints, removedUpTo });
      const known = (to: number) => within(0, to, trusted).map((of) => random.checkpoint(of));
      const { verifyText: verifyRandom } = verifierOf(random);
      const whole = await verifyRandom(textOf(lines), { checkpoints: known(last) });
      expect(whole).toMatchObject({ result: "proven", findings: [], provenUpTo: last });
      const part = random.export({ first, last, checkpoints });
      const asPart = await verifyRandom(textOf(part), { checkpoints: known(size), isPartial: true });
      expect(asPart).toMatchObject({ result: "proven", findings: [] });
    }),
    { numRuns: 100 },
  );
});

test.each(["", "id,kind\n", '{"type":"entry"}\n', "null\n"])("%j is refused as an export", async (text) => {
  await expect(verifyText(text)).rejects.toThrow(NotAnExportError);
});
