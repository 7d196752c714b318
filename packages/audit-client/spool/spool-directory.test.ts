import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { pino } from "pino";
import { v4 as uuidv4 } from "uuid";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { newProducerId } from "../stream/producer-id.ts";
import type { RecordStream, RecordStreamHandlers } from "../stream/record-stream.ts";
import { AuditSpool } from "./audit-spool.ts";
import { Spool } from "./spool.ts";
import { SpoolDirectory } from "./spool-directory.ts";
import { nodeFileSystem as files } from "./spool-file-system.ts";
import { encodeFileHeader, encodeRecord } from "./spool-record.ts";

const logger = pino({ level: "info" }, { write: (line: string) => void lines.push(JSON.parse(line)) });
let lines: Record<string, unknown>[];
let path: string;
let child: ChildProcess | undefined;

beforeEach(async () => {
  lines = [];
  // Longer than a socket path may be.
  path = join(await mkdtemp(join(tmpdir(), "gatehouse-spool-")), "d".repeat(100));
});

afterEach(async () => {
  child?.kill("SIGKILL");
  await rm(join(path, ".."), { recursive: true, force: true });
});

test("files of a killed process are taken over in order, as runs without gaps, and a torn tail is cut off", async () => {
  const killed = await processWithEntries([
    [1, 4],
    [5, 6],
    [20, 21],
  ]);
  child?.kill("SIGKILL");
  await once(child as ChildProcess, "exit");
  const ours = await open();
  const runs = await ours.takeOver();
  expect(
    runs.map((run) => run.map(({ firstSequence, lastSequence }) => [firstSequence, lastSequence])),
  ).toEqual([
    [
      [1, 4],
      [5, 6],
    ],
    [[20, 21]],
  ]);
  expect(new Set(runs.flat().map(({ producerId }) => producerId))).toEqual(new Set([killed]));
  expect(lines).toMatchObject([{ level: 40, cutBytes: 7, file: expect.stringContaining("-000003.spool") }]);
  expect(await ours.takeOver()).toEqual([]);
  await closeAll(runs.flat());
});

test("files of a running process are not taken over, even while it is stopped", async () => {
  await processWithEntries([[1, 4]]);
  const ours = await open();
  expect(await ours.takeOver()).toEqual([]);
  child?.kill("SIGSTOP");
  expect(await ours.takeOver()).toEqual([]);
});

test("only one of several processes takes a directory over", async () => {
  await processWithEntries([[1, 4]]);
  child?.kill("SIGKILL");
  await once(child as ChildProcess, "exit");
  const others = await Promise.all([open(), open(), open()]);
  const runs = (await Promise.all(others.map((other) => other.takeOver()))).flat();
  expect(runs).toHaveLength(1);
  await closeAll(runs.flat());
});

test("files that were taken over and not sent are taken over again", async () => {
  await processWithEntries([[1, 4]]);
  child?.kill("SIGKILL");
  await once(child as ChildProcess, "exit");
  const second = await open();
  await closeAll((await second.takeOver()).flat());
  await second.close(); // leaves its directory, because there is something in it
  const third = await open();
  const runs = await third.takeOver();
  expect(runs.flat().map(({ lastSequence }) => lastSequence)).toEqual([4]);
  await closeAll(runs.flat());
});

test("on a real full disk nothing counts as durable, and writing continues when there is room", async ({
  skip,
}) => {
  await mkdir(path, { recursive: true });
  const mount = spawnSync("mount", ["-t", "tmpfs", "-o", "size=256k", "tmpfs", path]);
  if (mount.status !== 0) skip("a file system of a fixed size can be mounted by root on Linux only");
  try {
    const directory = await open();
    const spool = new Spool({
      files,
      directory: directory.own,
      damagedDirectory: directory.damaged,
      producerId: uuidv4(),
      maxBytes: 1e9,
      bytesOfOthers: () => 0,
      onDamage: () => undefined,
      segmentBytes: 64_000,
    });
    const group = (first: number) =>
      Array.from({ length: 10 }, (_, index) => ({ sequence: first + index, entry: Buffer.alloc(1_000, 1) }));
    let next = 1;
    const fill = async () => {
      for (;;) {
        await spool.append(group(next));
        next += 10;
      }
    };
    await expect(fill()).rejects.toMatchObject({ code: "ENOSPC" });
    expect(next).toBeGreaterThan(100);
    await expect(spool.append(group(next))).rejects.toMatchObject({ code: "ENOSPC" });
    const read: number[] = [];
    for (let from = 1; from < next; from = (read.at(-1) ?? 0) + 1) {
      read.push(...(await spool.read(from, 50)).map(({ sequence }) => sequence));
    }
    expect(read).toEqual(Array.from({ length: next - 1 }, (_, index) => index + 1));
    await spool.release(100);
    await spool.append(group(next));
    expect((await spool.read(next, 50)).map(({ sequence }) => sequence)).toEqual(
      group(next).map(({ sequence }) => sequence),
    );
    await spool.close();
    await directory.close();
  } finally {
    spawnSync("umount", ["-l", path]);
  }
});

test("a process removes its empty directory", async () => {
  const ours = await open();
  expect(await readdir(path)).toHaveLength(1);
  await ours.close();
  expect(await readdir(path)).toEqual([]);
});

test("other files, and files without a whole record, are not sent", async () => {
  await processWithEntries([[1, 4]]);
  const [name = ""] = await readdir(path);
  await writeFile(join(path, name, "x-000009.spool"), "GHSPOOL1 and then something else entirely");
  await writeFile(join(path, name, "notes.txt"), "not ours");
  child?.kill("SIGKILL");
  await once(child as ChildProcess, "exit");
  const ours = await open();
  const runs = await ours.takeOver();
  expect(runs.flat().map(({ lastSequence }) => lastSequence)).toEqual([4]);
  expect((await readdir(join(ours.own, name))).filter((each) => /^(x|notes)/.test(each))).toEqual([
    "notes.txt",
  ]);
  expect([await ours.countUnsent(), await ours.countDamaged()]).toEqual([1, 0]);
  await closeAll(runs.flat());
});

test("runs follow the order of the file numbers, and each belongs to one producer", async () => {
  const [first, second] = ["11111111-0000-4000-8000-000000000000", "22222222-0000-4000-8000-000000000000"];
  for (const producerId of [second, first]) {
    await formerWith(producerId, [
      [1, 4],
      [5, 6],
      [8, 9],
    ]);
  }
  const backwards = { ...files, list: async (name: string) => (await files.list(name)).sort().reverse() };
  const ours = await SpoolDirectory.open({ files: backwards, path, name: uuidv4(), logger });
  const runs = await ours.takeOver();
  const each = runs.map((run) => [run[0]?.producerId, ...run.map(({ firstSequence }) => firstSequence)]);
  expect(each).toEqual([
    [first, 1, 5],
    [first, 8],
    [second, 1, 5],
    [second, 8],
  ]);
  expect(await ours.countUnsent()).toBe(6);
  await closeAll(runs.flat());
});

test("a process does not take over its own files", async () => {
  const ours = await open();
  await writeFile(join(ours.own, "x-000001.spool"), fileWith(uuidv4(), 1, 4));
  expect(await ours.takeOver()).toEqual([]);
  expect(await ours.countUnsent()).toBe(1);
});

test("a directory in preparation, without a lock yet, is not taken over", async () => {
  const ours = await open();
  const unfinished = `.${uuidv4()}`;
  await mkdir(join(path, unfinished));
  expect(await ours.takeOver()).toEqual([]);
  expect(await readdir(path)).toContain(unfinished);
});

test("a directory without entries to send is removed with all its other files", async () => {
  const producerId = uuidv4();
  await mkdir(join(path, producerId), { recursive: true });
  await writeFile(join(path, producerId, "a.spool.damaged"), "for people to look at");
  await writeFile(join(path, producerId, "notes.txt"), "not ours");
  const ours = await open();
  expect(await ours.takeOver()).toEqual([]);
  expect(await readdir(ours.own)).toEqual(["lock"]);
  expect([await ours.countUnsent(), await ours.countDamaged()]).toEqual([0, 1]);
  await writeFile(join(ours.own, "notes.txt"), "not ours");
  await ours.close();
  expect(await readdir(path)).toEqual([".damaged"]);
});

test.each([
  ["EACCES", [50]],
  ["ENOENT", []], // another process was faster
])("log levels for a directory that cannot be moved (%s): %j", async (code, levels) => {
  await formerWith(uuidv4(), [[1, 4]]);
  const rename = (from: string, to: string) =>
    basename(from).startsWith(".") ? files.rename(from, to) : Promise.reject(errorOf(code));
  const ours = await SpoolDirectory.open({ files: { ...files, rename }, path, name: uuidv4(), logger });
  expect(await ours.takeOver()).toEqual([]);
  expect(lines.map(({ level }) => level)).toEqual(levels);
});

test("a failure to list the directories is logged, and nothing is taken over", async () => {
  const list = () => Promise.reject(errorOf("EIO"));
  const ours = await SpoolDirectory.open({ files: { ...files, list }, path, name: uuidv4(), logger });
  expect(await ours.takeOver()).toEqual([]);
  expect(lines).toMatchObject([{ level: 50, err: { code: "EIO" } }]);
});

test("a file with an unreadable start is closed and set aside; one that cannot be moved is left and counted", async () => {
  const producerId = uuidv4();
  await formerWith(producerId, [
    [1, 4],
    [5, 6],
  ]);
  let openFiles = 0;
  const unreadable = async (name: string) => {
    const file = await files.open(name);
    openFiles += 1;
    const close = () => {
      openFiles -= 1;
      return file.close();
    };
    return {
      ...file,
      close,
      read: () => Promise.reject(errorOf("EIO")),
      size: () => Promise.reject(errorOf("EIO")),
    };
  };
  const rename = (from: string, to: string) =>
    from.endsWith("-000002.spool") ? Promise.reject(errorOf("EIO")) : files.rename(from, to);
  const ours = await SpoolDirectory.open({
    files: { ...files, open: unreadable, rename },
    path,
    name: uuidv4(),
    logger,
  });
  for (let round = 0; round < 2; round += 1) {
    expect(await ours.takeOver()).toEqual([]);
    expect(await ours.countDamaged()).toBe(2);
  }
  expect(openFiles).toBe(0);
  expect(await readdir(join(path, ".damaged"))).toEqual([`${producerId}-000001.spool.damaged`]);
  expect(lines.map(({ level }) => level)).toEqual([50, 50, 50]); // two cannot be read, one not be set aside
});

test.each([
  ["a record in the middle", "entry 3", [1, 2, 4, 5, 6, 7, 8, 9]],
  ["the first record", "entry 1", [2, 3, 4, 5, 6, 7, 8, 9]],
  ["the file's header", "GHSPOOL1", [1, 2, 3, 4, 5, 6, 7, 8, 9]],
])(
  "entries behind damage to %s are durable: they are sent, and the file is kept",
  async (_part, text, readable) => {
    await processWithEntries([[1, 9]]);
    const [name = ""] = await readdir(path);
    const [file = ""] = (await readdir(join(path, name))).filter((each) => each.endsWith(".spool"));
    const bytes = await readFile(join(path, name, file));
    bytes.write("X", bytes.indexOf(text), "latin1");
    await writeFile(join(path, name, file), bytes);
    child?.kill("SIGKILL");
    await once(child as ChildProcess, "exit");

    const logged: unknown[] = [];
    const log = pino({ level: "error" }, { write: (line) => void logged.push(JSON.parse(line).msg) });
    const spool = await AuditSpool.open({
      maxBytes: 1e6,
      metrics: createMetrics("test"),
      directory: path,
      producerIds: [newProducerId(0)],
      logger: log,
    });
    const end = new AbortController();
    const sent: number[] = [];
    const resending = spool.resendFormer({
      openStream: acknowledging(sent),
      random: () => 0,
      signal: end.signal,
    });
    const kept = () => readdir(join(path, ".damaged")).catch(() => []);
    await expect.poll(kept).toHaveLength(1);
    end.abort();
    await resending;
    await spool.close();

    expect(sent).toEqual(readable);
    expect(logged).toEqual(["audit entries in the spool can no longer be read; their file is kept"]);
    expect(await readFile(join(path, ".damaged", (await kept())[0] ?? ""))).toEqual(bytes);
  },
);

test("restarts do not nest directories that were taken over, with or without damaged files", async () => {
  const depthOf = (name: string) => name.split("/").length;
  for (let restart = 0; restart < 5; restart += 1) {
    await processWithEntries([[1, 4]]);
    child?.kill("SIGKILL");
    await once(child as ChildProcess, "exit");
    const ours = await open();
    await closeAll((await ours.takeOver()).flat());
    const [file = ""] = (await readdir(ours.own, { recursive: true })).filter((each) =>
      each.endsWith(".spool"),
    );
    await rename(join(ours.own, file), join(ours.own, `${file}.damaged`));
    await ours.close();
  }
  const all = await readdir(path, { recursive: true });
  expect(Math.max(...all.map(depthOf))).toBe(3); // our directory, theirs, its file
  expect((await readdir(join(path, ".damaged"))).length).toBeGreaterThanOrEqual(4);
});

test("nested directories are flattened, even deeper than the limit of a path", async () => {
  let deepest = "";
  for (let level = 0; level < 120; level += 1) {
    // A process that ends between its two steps leaves the former directory within its own.
    const newer = join(path, uuidv4());
    await mkdir(newer, { recursive: true });
    if (deepest !== "") await rename(deepest, join(newer, basename(deepest)));
    else await writeFile(join(newer, "old.spool.damaged"), "looked at by nobody");
    deepest = newer;
  }
  const ours = await open();
  await closeAll((await ours.takeOver()).flat());
  expect(await readdir(join(path, ".damaged"))).toEqual(["old.spool.damaged"]);
  await ours.close();
  expect(await readdir(path)).toEqual([".damaged"]);
});

test("a file that cannot be opened does not prevent a start: it is set aside, and counted until it is removed", async () => {
  await processWithEntries([
    [1, 4],
    [5, 6],
  ]);
  child?.kill("SIGKILL");
  await once(child as ChildProcess, "exit");
  const metrics = createMetrics("test");
  const unreadable = (name: string) => name.endsWith("-000001.spool");
  const spool = await AuditSpool.open({
    maxBytes: 1e6,
    metrics,
    directory: path,
    producerIds: [newProducerId(0)],
    logger,
    files: {
      ...files,
      open: (name) => (unreadable(name) ? Promise.reject(errorOf("EIO")) : files.open(name)),
    },
  });
  expect(await metrics.render()).toMatch(/^gatehouse_audit_spool_damaged_files\{.*\} 1$/m);
  const end = new AbortController();
  const sent: number[] = [];
  const resending = spool.resendFormer({
    openStream: acknowledging(sent),
    random: () => 0,
    signal: end.signal,
  });
  await expect.poll(() => sent).toEqual([5, 6]);
  end.abort();
  await resending;
  await spool.close();
  expect(await readdir(join(path, ".damaged"))).toHaveLength(1);
});

test("a directory that can be neither listed nor moved does not prevent a start", {
  tags: "exhaustive",
}, async () => {
  await mkdir(path, { recursive: true });
  for (const operation of ["listDirectories", "list", "rename"] as const) {
    let isBroken = false;
    await processWithEntries([[1, 4]]);
    child?.kill("SIGKILL");
    await once(child as ChildProcess, "exit");
    const broken = (...[name = ""]: unknown[]) =>
      isBroken
        ? Promise.reject(errorOf("EIO"))
        : (files[operation] as (...names: unknown[]) => unknown)(name);
    const ours = await SpoolDirectory.open({
      files:
        operation === "rename"
          ? { ...files, rename: renamingUnlessFormer }
          : { ...files, [operation]: broken },
      path,
      name: uuidv4(),
      logger,
    });
    isBroken = true;
    expect((await ours.takeOver()).flat()).toEqual([]);
  }
});

function renamingUnlessFormer(from: string, to: string): Promise<void> {
  return basename(from).startsWith(".") ? files.rename(from, to) : Promise.reject(errorOf("EACCES"));
}

function errorOf(code: string): Error {
  return Object.assign(new Error(code), { code });
}

/** A service that has everything at once. */
function acknowledging(sent: number[]) {
  return ({ onAcknowledged }: RecordStreamHandlers): RecordStream => ({
    send({ entries }) {
      sent.push(...entries.map(({ sequence }) => sequence));
      setImmediate(() => onAcknowledged(entries.at(-1)?.sequence ?? 0));
      return true;
    },
    cancel: () => undefined,
  });
}

async function open(): Promise<SpoolDirectory> {
  return SpoolDirectory.open({ files, path, name: uuidv4(), logger });
}

/** The files of a dead process: one for each range of sequences. */
async function formerWith(producerId: string, groups: readonly (readonly [number, number])[]): Promise<void> {
  const directory = join(path, producerId);
  await mkdir(directory, { recursive: true });
  for (const [index, [first, last]] of groups.entries()) {
    const name = `${producerId}-00000${index + 1}.spool`;
    await writeFile(join(directory, name), fileWith(producerId, first, last));
  }
}

function fileWith(producerId: string, first: number, last: number): Buffer {
  const sequences = Array.from({ length: last - first + 1 }, (_, index) => first + index);
  const records = sequences.map((sequence) => encodeRecord({ sequence, entry: Buffer.from("entry") }));
  return Buffer.concat([encodeFileHeader(producerId), ...records]);
}

/** Another process that has written these sequences, a file each, with a torn record behind the last. @returns its producer id. */
async function processWithEntries(groups: readonly (readonly [number, number])[]): Promise<string> {
  const producerId = uuidv4();
  child = spawn(
    process.execPath,
    [join(import.meta.dirname, "spool-process.fixture.ts"), path, producerId, JSON.stringify(groups)],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  if (child.stdout === null) throw new Error("no output");
  await once(child.stdout, "data");
  return producerId;
}

async function closeAll(segments: readonly { file: { close(): Promise<void> } }[]): Promise<void> {
  for (const { file } of segments) await file.close();
}

test("a spool on a real disk returns the stored entries", async () => {
  const producerId = uuidv4();
  const directory = await SpoolDirectory.open({ files, path, name: producerId, logger });
  const spool = new Spool({
    files,
    directory: directory.own,
    damagedDirectory: directory.damaged,
    producerId,
    maxBytes: 1e6,
    bytesOfOthers: () => 0,
    onDamage: () => undefined,
  });
  await spool.append([{ sequence: 7, entry: Buffer.from("seven") }]);
  expect((await spool.read(7, 10)).map(({ entry }) => Buffer.from(entry).toString())).toEqual(["seven"]);
  await spool.release(7);
  await directory.close();
  expect(await readdir(path)).toEqual([]);
});
