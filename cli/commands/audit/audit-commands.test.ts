import { execFileSync, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createWriteStream, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pino } from "pino";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type Implementation, RpcServer } from "#kit/rpc/rpc-server.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import {
  type AuditQueryServiceServer,
  AuditQueryServiceService,
  type ExportEntriesResponse,
  type FollowEntriesRequest,
  type FollowEntriesResponse,
  type SearchEntriesRequest,
} from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { type Entry, EntryKind, Outcome } from "#proto/gatehouse/audit/v1/entry.ts";
import { createTestCertificates, type TestCertificates } from "#tests/support/system/certificates.ts";
import type { EntryLine, ExportLine } from "../../audit-verifier/export-line.ts";
import {
  noteCheckpoint,
  type SampleLog,
  sampleKey,
  sampleLog,
  textOf,
} from "../../audit-verifier/log.fixture.ts";
import { EXIT } from "../../exit-code.ts";
import { run } from "../../run.ts";
import { COMMANDS } from "../commands.ts";

const SIZE = 1_200;
const MAIN = resolve(import.meta.dirname, "..", "..", "main.ts");
const key = sampleKey();
const log = sampleLog(SIZE, { key });

let certificates: TestCertificates;
let server: RpcServer;
let port: number;
let folder: string;
let sent: ExportLine[];
/** Logs beside log 0: what is sent of them. */
let others: Map<number, { log: SampleLog; sent: ExportLine[] }>;
let searched: SearchEntriesRequest[];
/** Breaks an export after so many lines, once for each number. */
let cuts: number[];
/** What retention has removed for exports that begin after it. */
let removedUpTo: number;
/** What a follower asks, and is answered. */
let follow: (request: FollowEntriesRequest) => Promise<FollowEntriesResponse>;
/** Each export calls it after its first line. */
let stall: (() => Promise<void>) | undefined;
/** An entry that the log has lost. */
let hole: number | undefined;

beforeAll(async () => {
  certificates = await createTestCertificates();
  folder = mkdtempSync(join(tmpdir(), "gatehouse-audit-cli-"));
  server = new RpcServer({
    address: "127.0.0.1:0",
    certificate: certificates.of("audit-service"),
    logger: pino({ level: "silent" }),
    metrics: createMetrics("audit-service"),
  });
  const operator = ["operator"];
  const none = async () => {
    throw new DomainError("not_found");
  };
  const methods: Implementation<AuditQueryServiceServer> = {
    async searchEntries(request) {
      searched.push(request);
      const from = Number(request.cursor || 0);
      const entries = log.entries.slice(from, from + request.limit).map((line) => toEntry(line));
      const next = from + entries.length;
      return { entries, nextCursor: next < SIZE ? String(next) : "" };
    },
    async getCheckpoint({ log: number }) {
      const { verifierKey, checkpoint, entries } = number === 0 ? log : (others.get(number)?.log ?? log);
      return { checkpoint: checkpoint(entries.length), verifierKey, logs: [0, ...others.keys()] };
    },
    async *exportEntries({ firstSequence, log: number }) {
      const cutAfter = cuts.shift() ?? Number.POSITIVE_INFINITY;
      const lines = number === 0 ? sent : (others.get(number)?.sent ?? []);
      if (lines.length === 0) throw new DomainError("not_found");
      const isLater = removedUpTo > 0 && firstSequence > removedUpTo;
      const removals = isLater ? [{ type: "removal" as const, note: log.removal(1, removedUpTo) }] : [];
      const rest = lines
        .toSpliced(1, 0, ...removals)
        .filter((line) => line.type !== "entry" || line.entry.sequence >= firstSequence);
      for (const [index, line] of rest.entries()) {
        if (line.type === "entry" && line.entry.sequence === hole) throw new DomainError("not_found");
        if (index === 1) await stall?.();
        if (index === cutAfter) throw new DomainError("service_unavailable", "cut");
        yield toMessage(line);
      }
    },
    followEntries: (request) => follow(request),
    summarizeLogins: none,
    getEntry: none,
    proveInclusion: none,
    proveConsistency: none,
  };
  server.add(
    AuditQueryServiceService,
    {
      searchEntries: operator,
      getCheckpoint: operator,
      exportEntries: operator,
      followEntries: operator,
      summarizeLogins: operator,
      getEntry: operator,
      proveInclusion: operator,
      proveConsistency: operator,
    },
    methods,
  );
  port = await server.listen();
});

afterAll(async () => {
  await server.close(0);
  await certificates.remove();
  rmSync(folder, { recursive: true });
});

beforeEach(() => {
  sent = log.export({ checkpoints: [700, SIZE] });
  others = new Map();
  searched = [];
  cuts = [];
  removedUpTo = 0;
  hole = undefined;
  stall = undefined;
});

const bytes = (text: string) => Buffer.from(text, "base64");

function toEntry({ entry, claimedEmail }: EntryLine): Entry {
  const { v: _v, ...members } = entry;
  return {
    ...members,
    kind: EntryKind[entry.kind.toUpperCase() as "INTENT" | "OUTCOME" | "EVENT"],
    outcome: entry.outcome === "" ? Outcome.UNSPECIFIED : Outcome.SUCCESS,
    occurredAt: new Date(entry.occurredAt),
    receivedAt: new Date(entry.receivedAt),
    actor: { ...entry.actor, claimedEmail: claimedEmail?.address ?? "" },
    log: 0,
  };
}

function toMessage(line: ExportLine): ExportEntriesResponse {
  if (line.type === "log") {
    const { origin, firstSequence, lastSequence, treeHead, chainHash } = line;
    const value = {
      origin,
      firstSequence,
      lastSequence,
      treeHead: treeHead.map(bytes),
      chainHash: bytes(chainHash),
    };
    return { line: { $case: "log", value } };
  }
  if (line.type !== "entry") return { line: { $case: line.type, value: { note: line.note } } };
  const value = {
    entry: toEntry(line),
    leafHash: bytes(line.leafHash),
    chainHash: bytes(line.chainHash),
    claimedEmailSalt: bytes(line.claimedEmail?.salt ?? ""),
  };
  return { line: { $case: "entry", value } };
}

const gatehouse = (...argv: string[]) => gatehouseOn(false, argv);

async function gatehouseOn(isTerminal: boolean, argv: readonly string[]) {
  let [out, error] = ["", ""];
  const code = await run(argv, COMMANDS, {
    environment: { AUDIT_SERVICE_ADDRESS: `127.0.0.1:${port}`, ...certificates.environmentOf("operator") },
    defaultHome: "/no such home",
    isTerminal: () => isTerminal,
    writeOut: (text) => {
      out += text;
    },
    writeError: (text) => {
      error += text;
    },
  });
  return { code, out, error };
}

function file(name: string, content?: string): string {
  const path = join(folder, name);
  if (content !== undefined) writeFileSync(path, content);
  return path;
}

const checkpointsOf = (...sizes: number[]) =>
  textOf(sizes.map((size) => ({ type: "checkpoint", note: log.checkpoint(size) })));

test("tail shows entries as they come, goes on after a break where it was, and ends at Ctrl-C", async () => {
  const asked: (number | undefined)[] = [];
  const pageOf = (from: number, to: number) => ({
    entries: log.entries.slice(from, to).map((line) => toEntry(line)),
    nextAfterSequence: to,
    size: to,
    next: [{ log: 0, sequence: to }],
    hasMore: false,
    away: [],
  });
  follow = async ({ after, action, outcome }) => {
    asked.push(after[0]?.sequence);
    expect([action, outcome]).toEqual(["payments.create", Outcome.SUCCESS]);
    if (asked.length === 1) return pageOf(0, 2);
    if (asked.length === 2) throw new DomainError("service_unavailable", "the database is away");
    if (asked.length === 3) throw new DomainError("audit_unavailable", "the reading cannot be recorded");
    process.emit("SIGINT");
    return pageOf(2, 3);
  };
  const filter = ["--action", "payments.create", "--outcome", "success", "--after", "0"];
  const { code, out, error } = await gatehouse("tail", ...filter, "--json");
  expect(code).toBe(0);
  expect(asked).toEqual([0, 2, 2, 2]);
  const shown = out.trimEnd().split("\n");
  expect(shown.map((line) => JSON.parse(line).sequence)).toEqual([1, 2, 3]);
  expect(error).toMatch(/the database is away\ngatehouse: trying again\ngatehouse: following again\n$/);
});

test("tail does not begin while a log whose end it must know does not answer", async () => {
  follow = async () => {
    process.emit("SIGINT");
    const next = [{ log: 0, sequence: 2 }];
    return { entries: [], nextAfterSequence: 2, size: 2, next, hasMore: false, away: [1] };
  };
  const { code, error } = await gatehouse("tail");
  expect([code, error]).toEqual([
    EXIT.unavailable,
    "gatehouse: Logs that do not answer: 1. The others are followed from places that are named: --after\n",
  ]);
});

test("tail follows all logs, from the beginning or from the places it is given, and shows the log of an entry", async () => {
  const asked: FollowEntriesRequest["after"][] = [];
  const [entry] = log.entries.map((line) => toEntry(line));
  follow = async ({ after }) => {
    asked.push(after);
    if (asked.length === 3) process.emit("SIGINT");
    const next = [0, 1].map((of) => ({
      log: of,
      sequence: (after.find((place) => place.log === of)?.sequence ?? 50) + 1,
    }));
    const entries = [{ ...(entry as Entry), log: 1, sequence: 4711 }];
    const away = asked.length === 1 ? [1] : [];
    return { entries, nextAfterSequence: 0, size: 0, next, hasMore: asked.length < 3, away };
  };
  const { out, error } = await gatehouse("tail", "--after", "0");
  expect(error).toBe("gatehouse: logs that do not answer: 1\ngatehouse: all logs answer again\n");
  expect(asked).toEqual([
    [{ log: 0, sequence: 0 }],
    [
      { log: 0, sequence: 1 },
      { log: 1, sequence: 0 },
    ],
    [
      { log: 0, sequence: 2 },
      { log: 1, sequence: 1 },
    ],
  ]);
  expect(out).toMatch(/^1:4711 {2}2026/);
  for (const [argv, expected] of [
    [[], []],
    [
      ["--after", "17,1:40"],
      [
        { log: 0, sequence: 17 },
        { log: 1, sequence: 40 },
      ],
    ],
  ] as const) {
    asked.length = 2;
    expect(await gatehouse("tail", "--json", ...argv)).toMatchObject({
      code: 0,
      out: expect.stringContaining('"log":1'),
    });
    expect(asked[2]).toEqual(expected);
  }
  for (const wrong of ["", "x", "1,", "256:1", "1,0:2", "1:2:3", "-1"])
    expect((await gatehouse("tail", "--after", wrong)).code, wrong).toBe(64);
});

test.each([
  ["not_found", 1],
  ["service_unavailable", 69],
] as const)("a tail that fails with %s before its first answer ends", async (failure, exitCode) => {
  follow = async () => {
    throw new DomainError(failure);
  };
  expect(await gatehouse("tail")).toMatchObject({ code: exitCode, out: "" });
});

test("an export is complete, and proven with checkpoints kept elsewhere", async () => {
  const path = file("whole.jsonl");
  expect(await gatehouse("audit", "export", "--output", path)).toMatchObject({
    code: 0,
    out: `${SIZE} entries were written to ${path}\n`,
    error: "",
  });
  expect(readFileSync(path, "utf8")).toBe(textOf(sent));
  const kept = file("kept.jsonl", checkpointsOf(10, 900, SIZE));
  const keys = file("keys", `${log.verifierKey}\n`);
  const proven = await gatehouse("audit", "verify", path, "--key", keys, "--checkpoints", kept, "--json");
  expect(proven).toMatchObject({ code: 0, error: "" });
  expect(JSON.parse(proven.out)).toMatchObject({ result: "proven", trustedUpTo: SIZE, caveats: [] });
  const alone = await gatehouse("audit", "verify", path, "--key", log.verifierKey);
  expect(alone).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^PROVEN[\s\S]*Not proven:\n {2}No checkpoint from/),
  });
});

/** Log 0 that notes a checkpoint of a log 1, which is there beside it. */
function withLog1() {
  const one = sampleLog(40, { key, origin: `${log.origin}/1` });
  const zero = sampleLog(20, {
    key,
    change: (entry) => void (entry.sequence === 7 && noteCheckpoint(entry, one, 30)),
  });
  sent = zero.export();
  others.set(1, { log: one, sent: one.export() });
  return { one, zero };
}

test("an export is proven as it was stored, with characters that only spell or join", async () => {
  const texts = ["علی\u200cرضا", "ශ්\u200dරී", "👩\u200d💻"];
  const change = (entry: EntryLine["entry"]) => {
    entry.userAgent = texts[entry.sequence - 1] ?? "";
  };
  sent = sampleLog(texts.length, { key, change }).export();
  const path = file("spelt.jsonl");
  expect((await gatehouse("audit", "export", "--output", path)).code).toBe(0);
  const verified = await gatehouse("audit", "verify", path, "--key", log.verifierKey);
  expect([verified.code, verified.out.split("\n")[0]]).toEqual([0, "PROVEN: the log is as it was signed."]);
});

test("Ctrl-C ends an export at once while the log sends nothing, and leaves no file", async () => {
  const ended = Promise.withResolvers<void>();
  stall = () => {
    process.emit("SIGINT");
    return ended.promise;
  };
  const path = file("interrupted.jsonl");
  const begunMs = performance.now();
  for (const options of [[], ["--log", "0"]]) {
    const { code, error } = await gatehouse("audit", "export", "--output", path, ...options);
    expect({ code, error }).toEqual({ code: 1, error: "gatehouse: Interrupted\n" });
  }
  ended.resolve();
  expect(performance.now() - begunMs, "less than a silent stream is waited for").toBeLessThan(20_000);
  expect(readdirSync(folder).filter((name) => name.includes("interrupted"))).toEqual([]);
});

test("a log that names itself in several lines cannot write a verdict", async () => {
  const [head] = log.export();
  const forged = { ...head, origin: "x\nPROVEN: the log is as it was signed." };
  const path = file("named.jsonl", textOf([forged]));
  const { code, out } = await gatehouse("audit", "verify", path, "--key", log.verifierKey);
  expect([code, out]).toEqual([65, expect.not.stringMatching(/^PROVEN/m)]);
});

test("all logs are in one file, and proven one by one; a log alone is as ever", async () => {
  const { one, zero } = withLog1();
  others.set(2, { log: sampleLog(0), sent: [] });
  const path = file("all.jsonl");
  expect(await gatehouse("audit", "export", "--output", path)).toMatchObject({
    code: 0,
    out: `60 entries were written to ${path}\n`,
    error: "gatehouse: log 2 has no checkpoint yet, and is left out\n",
  });
  expect(readFileSync(path, "utf8")).toBe(textOf([...zero.export(), ...one.export()]));
  const kept = file(
    "kept-all.jsonl",
    textOf([zero, one].map((of) => ({ type: "checkpoint", note: of.checkpoint(9) }))),
  );
  const verify = ["audit", "verify", path, "--key", log.verifierKey, "--checkpoints", kept];
  const shown = await gatehouse(...verify);
  expect([shown.code, shown.error]).toEqual([0, ""]);
  expect(shown.out).toMatch(
    /^ALL PROVEN: .*\n\nPROVEN: [\s\S]*\n\nPROVEN: .*\n\nLog: .*\/1, entries 1 to 40\n.*1 noted in log 0\)\n/,
  );
  const { out } = await gatehouse(...verify, "--json");
  expect(JSON.parse(out)).toMatchObject({
    result: "proven",
    logs: [{ trustedUpTo: 9 }, { trustedUpTo: 30, origin: one.origin }],
  });
  for (const argv of [
    ["--log", "1"],
    ["--log", "1", "--from-sequence", "1", "--to-sequence", "40"],
  ])
    expect((await gatehouse("audit", "export", ...argv)).out).toBe(textOf(one.export()));
  for (const argv of [
    ["--log", "0"],
    ["--to-sequence", "20"],
  ])
    expect((await gatehouse("audit", "export", ...argv)).out).toBe(textOf(zero.export()));
  expect(await gatehouse("audit", "export", "--log", "2")).toMatchObject({ code: 1 });
  expect(await gatehouse("audit", "export", "--log", "256")).toMatchObject({ code: 64 });
  const csv = (await gatehouse("audit", "export", "--format", "csv")).out.trimEnd().split("\n");
  expect([csv[0], csv[20], csv[21]]).toEqual([
    expect.stringMatching(/,leafHash,log$/),
    expect.stringMatching(/^20,.*,0$/s),
    expect.stringMatching(/^1,.*,1$/s),
  ]);
});

test("all running logs are verified, and one at fault is named first", async () => {
  const { one } = withLog1();
  const live = ["audit", "verify", "--live", "--key", log.verifierKey];
  expect(await gatehouse(...live)).toMatchObject({ code: 0, out: expect.stringMatching(/^ALL PROVEN/) });
  hole = 7;
  const lost = await gatehouse(...live, "--json");
  expect([lost.code, JSON.parse(lost.out)]).toMatchObject([
    65,
    {
      result: "tampered",
      logs: [{ findings: [{ code: "missing", firstSequence: 7 }] }, { findings: [{ firstSequence: 7 }] }],
    },
  ]);
  hole = undefined;
  others.set(1, { log: one, sent: one.export({ last: 29 }) });
  const cut = await gatehouse(...live);
  expect(cut).toMatchObject({ code: 65, out: expect.stringContaining(`At fault: ${one.origin}\n\nPROVEN`) });
  others.clear();
  const gone = await gatehouse(...live, "--json");
  expect([gone.code, JSON.parse(gone.out)]).toMatchObject([
    65,
    { logs: [{ result: "proven" }, { origin: one.origin }] },
  ]);
});

test("the running log is verified while it is exported, and its first bad entry is found", async () => {
  const live = ["audit", "verify", "--live", "--key", log.verifierKey];
  expect(await gatehouse(...live)).toMatchObject({ code: 0, out: expect.stringMatching(/^PROVEN/) });
  (sent[777] as EntryLine).entry.resource = "another";
  expect(await gatehouse(...live)).toMatchObject({
    code: 65,
    out: expect.stringMatching(/^TAMPERED[\s\S]*First bad entry: 777\n[\s\S]*Proven up to: {2}entry 700/),
  });
});

test("a lost entry of the running log is found", async () => {
  hole = 600;
  const { code, out } = await gatehouse("audit", "verify", "--live", "--key", log.verifierKey, "--json");
  expect(code).toBe(65);
  expect(JSON.parse(out).findings[0]).toMatchObject({
    code: "missing",
    firstSequence: 600,
    lastSequence: 600,
  });
  expect(await gatehouse("audit", "export")).toMatchObject({ code: 1 });
});

test("the log output of audit-service is accepted as checkpoints; a forged line in it is refused", async () => {
  const line = (note: string) =>
    JSON.stringify({
      level: "info",
      time: 1,
      service: "audit-service",
      size: SIZE,
      checkpoint: note,
      msg: "checkpoint",
    });
  const other = JSON.stringify({ level: "warn", time: 1, msg: "entries cannot be stored now" });
  const printed = file(
    "printed.log",
    `${other}\n${line(log.checkpoint(SIZE))}\n${line(log.checkpoint(300)).slice(0, 90)}\n`,
  );
  const path = file("whole.jsonl", textOf(sent));
  const proven = await gatehouse("audit", "verify", path, "--key", log.verifierKey, "--checkpoints", printed);
  expect([proven.code, proven.error]).toEqual([0, ""]);
  const changed = log.checkpoint(SIZE).replace(`\n${SIZE}\n`, "\n999\n");
  const forged = file("forged.log", `${line(changed)}\n`);
  const refused = await gatehouse("audit", "verify", path, "--key", log.verifierKey, "--checkpoints", forged);
  expect(refused.code).not.toBe(0);
});

/** A verification of a pipe, whose output a terminal of 60 columns shows. */
async function verifyOnTerminal() {
  const pipe = file(`pipe-${randomUUID()}`);
  execFileSync("mkfifo", [pipe]);
  const command = `stty cols 60; exec "${process.execPath}" "${MAIN}" audit verify "${pipe}" --key "${log.verifierKey}"`;
  const child = spawn("script", ["--quiet", "--return", "--flush", "--command", command, "/dev/null"], {
    env: { ...process.env, TERM: "xterm" },
  });
  let shown = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    shown += text;
  });
  const readable = () => shown.replaceAll("\r\x1b[K", "<cleared>");
  const input = createWriteStream(pipe).on("error", () => {});
  const lines = textOf(sent).split(/(?<=\n)/);
  const showsProgress = () => {
    if (lines.length > 20) input.write(lines.shift());
    return readable();
  };
  await expect.poll(showsProgress, { timeout: 30_000 }).toMatch(/<cleared>\d+ of 1,200 entries \(\d+ %\), /);
  return { child, ended: once(child, "exit"), rest: () => input.end(lines.join("")), shown: readable };
}

test.skipIf(process.platform !== "linux")(
  "a terminal shows the progress of a verification, and in the end its result alone",
  async () => {
    const { ended, rest, shown } = await verifyOnTerminal();
    rest();
    expect(await ended).toEqual([0, null]);
    await expect.poll(shown).toMatch(/<cleared>PROVEN[^<]+$/);
    const lines = shown().split(/<cleared>|\n/);
    expect(lines.filter((line) => line.includes(" of 1,200") && line.length >= 60)).toEqual([]);
  },
  60_000,
);

test.skipIf(process.platform !== "linux")(
  "Ctrl-C ends a verification by its signal, and leaves a clean line",
  async () => {
    const { child, ended, shown } = await verifyOnTerminal();
    child.stdin.write("\x03");
    const [code] = await ended;
    expect(code).toBe(128 + constants.signals.SIGINT);
    await expect.poll(shown).toMatch(/<cleared>$/);
  },
  60_000,
);

test.each([
  ["empty", ""],
  ["torn", checkpointsOf(10).slice(0, 60)],
  ["of another service", '{"level":"info","msg":"other"}\n'],
])("a file of checkpoints that is %s does not count as one", async (_what, text) => {
  const kept = file("none.jsonl", text);
  const { code, error } = await gatehouse(
    ...["audit", "verify", "--live", "--key", log.verifierKey, "--checkpoints", kept],
  );
  expect({ code, error }).toEqual({
    code: 66,
    error: expect.stringContaining(`${kept} has no checkpoint\n`),
  });
});

test("an incomplete line of stored checkpoints is skipped and reported", async () => {
  const [one = "", two = ""] = checkpointsOf(10, SIZE).split("\n");
  const kept = file("torn.jsonl", `${one.slice(0, 60)}\n${two}\n${one.slice(0, 9)}`);
  const { code, out, error } = await gatehouse(
    ...["audit", "verify", "--live", "--key", log.verifierKey, "--checkpoints", kept, "--json"],
  );
  expect({ code, error }).toEqual({ code: 0, error: expect.stringContaining("incomplete lines skipped: 2") });
  expect(JSON.parse(out).trustedUpTo).toBe(SIZE);
});

test("an interrupted stream is continued; one without progress is an error", async () => {
  cuts = [3, 650, 1, 1, 500];
  const { code, out } = await gatehouse("audit", "export");
  expect([code, out === textOf(sent)]).toEqual([0, true]);
  cuts = [SIZE + 2]; // between its two checkpoints
  expect((await gatehouse("audit", "export")).out === textOf(sent)).toBe(true);
  cuts = [600, 1, 1, 1, 1, 1, 1, 1];
  const path = file("cut.jsonl");
  expect(await gatehouse("audit", "export", "--output", path)).toMatchObject({ code: 69, out: "" });
  expect(readdirSync(folder).filter((name) => name.includes("cut"))).toEqual([]);
});

test("what retention removes while an export is interrupted was exported, and is not named as removed", async () => {
  removedUpTo = 500;
  cuts = [1, 650];
  const { code, out } = await gatehouse("audit", "export");
  expect([code, out === textOf(sent)]).toEqual([0, true]);
});

test("an existing file is replaced only with --force, and no partial file is left", async () => {
  const path = file("there.jsonl", "precious");
  const refused = await gatehouse("audit", "export", "--output", path);
  expect(refused).toMatchObject({ code: 73, error: expect.stringContaining("--force") });
  sent = sent.slice(0, 20);
  expect(await gatehouse("audit", "export", "--output", path, "--force")).toMatchObject({ code: 1 });
  expect(readFileSync(path, "utf8")).toBe("precious");
  expect(readdirSync(folder).filter((name) => name.includes("partial"))).toEqual([]);
  sent = log.export();
  expect(await gatehouse("audit", "export", "--output", path, "--force")).toMatchObject({ code: 0 });
  expect(readFileSync(path, "utf8")).toBe(textOf(sent));
  expect(await gatehouse("audit", "export", "--output", join(folder, "no", "x"))).toMatchObject({ code: 73 });
});

test("CSV escapes formulas", async () => {
  const armed = ["=1+1", "+1", "-1", "@x", "\tx", 'a "quoted", one'];
  sent = sampleLog(armed.length, {
    key,
    change: (entry) => {
      entry.resource = armed[entry.sequence - 1] ?? "";
    },
  }).export();
  const { code, out } = await gatehouse("audit", "export", "--format", "csv");
  expect(code).toBe(0);
  const [head = "", ...rows] = out.trimEnd().split("\n");
  expect(head).toMatch(/^sequence,id,producer,kind,/);
  expect(rows).toHaveLength(armed.length);
  for (const text of ["'=1+1", "'+1", "'-1", "'@x", "'\tx", '"a ""quoted"", one"'])
    expect(out).toContain(`,${text},`);
});

test("CSV on a terminal cannot control it, and is as it is in a file", async () => {
  const armed = "\u001b]0;title\u0007 \u009b2J \u202e a\nb";
  sent = sampleLog(1, {
    key,
    change: (entry) => {
      entry.resource = armed;
    },
  }).export();
  const argv = ["audit", "export", "--format", "csv"];
  expect((await gatehouse(...argv)).out).toContain(`,"${armed}",`);
  const { out } = await gatehouseOn(true, argv);
  expect(out).toContain(',"\ufffd]0;title\ufffd \ufffd2J \ufffd a\nb",');
  expect(out.split("\n").length).toBe(4);
});

test("a search reads all pages, as a table and as JSON lines", async () => {
  const shown = await gatehouse(
    "audit",
    "search",
    "--action",
    "payments.create",
    "--from",
    "2026-11-21T09:30:00Z",
  );
  expect(shown.out.trimEnd().split("\n")).toHaveLength(51);
  expect(shown.error).toBe("gatehouse: these are the newest 50; there are more: --limit or --all\n");
  expect(searched).toMatchObject([
    { action: "payments.create", limit: 50, from: new Date("2026-11-21T09:30:00Z") },
  ]);
  const { out, error } = await gatehouse("audit", "search", "--all", "--json", "--outcome", "success");
  expect(error).toBe("");
  const sequences = out
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line).sequence);
  expect(sequences).toEqual(Array.from({ length: SIZE }, (_, index) => index + 1));
  expect(searched).toHaveLength(1 + SIZE / 100);
  const limited = await gatehouse("audit", "search", "--limit", "130", "--json");
  expect(limited.out.trimEnd().split("\n")).toHaveLength(130);
  expect(limited.error).toBe("");
});

test("the checkpoint of another log is printed with its key", async () => {
  const { one } = withLog1();
  const { code, out } = await gatehouse("audit", "checkpoint", "--log", "1");
  expect([code, out.split("\n").slice(0, 2)]).toEqual([0, [one.origin, "40"]]);
  expect(out).toContain(`Verifier key: ${one.verifierKey}\n`);
});

test("the latest checkpoint is printed with its key and as a line to keep", async () => {
  const { code, out } = await gatehouse("audit", "checkpoint");
  expect(code).toBe(0);
  expect(out).toContain(`Verifier key: ${log.verifierKey}\n`);
  const kept = file("line.jsonl", `${out.trimEnd().split("\n").at(-1)}\n`);
  const live = await gatehouse(
    "audit",
    "verify",
    "--live",
    "--key",
    log.verifierKey,
    "--checkpoints",
    kept,
    "--json",
  );
  expect(JSON.parse(live.out)).toMatchObject({ result: "proven", trustedUpTo: SIZE });
});

test("unreadable and invalid input is not reported as tampering", async () => {
  const path = file("some.jsonl", textOf(sent));
  const verify = (...argv: string[]) => gatehouse("audit", "verify", ...argv);
  const { verifierKey } = log;
  expect(await verify("--key", verifierKey)).toMatchObject({ code: 64 });
  expect(await verify(path, "--live", "--key", verifierKey)).toMatchObject({ code: 64 });
  expect(await verify(join(folder, "none"), "--key", verifierKey)).toMatchObject({ code: 66 });
  expect(await verify(file("csv", "a,b\n"), "--key", verifierKey)).toMatchObject({ code: 66 });
  expect(await verify(path, "--key", "nonsense")).toMatchObject({ code: 66 });
  expect(await verify(path, "--key", verifierKey, "--checkpoints", path)).toMatchObject({ code: 66 });
  expect(await verify(path, "--key", verifierKey.replace("+", "x+"))).toMatchObject({ code: 66 });
  const strange = textOf([{ type: "checkpoint", note: sampleLog(3).checkpoint(3) }]);
  expect(await verify(path, "--key", verifierKey, "--checkpoints", file("strange", strange))).toMatchObject({
    code: 65,
  });
  const part = file("part.jsonl", textOf(log.export({ first: 3, last: 900, checkpoints: [800, SIZE] })));
  expect(await verify(part, "--key", verifierKey)).toMatchObject({ code: 65 });
  expect(await verify(part, "--key", verifierKey, "--partial")).toMatchObject({ code: 1 });
  for (const argv of [
    ["--limit", "0"],
    ["--limit", "3", "--all"],
    ["--from", "today"],
    ["--outcome", "good"],
  ])
    expect(await gatehouse("audit", "search", ...argv)).toMatchObject({ code: 64 });
  expect(await gatehouse("audit", "export", "--format", "xml")).toMatchObject({ code: 64 });
  expect(searched).toEqual([]);
});
