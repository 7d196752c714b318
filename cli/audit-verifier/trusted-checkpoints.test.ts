import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { LineError } from "./export-line.ts";
import { sampleLog, textOf } from "./log.fixture.ts";
import { readLines } from "./read-lines.ts";
import { parseVerifierKey } from "./signed-note.ts";
import { readTrustedCheckpoints, TrustedCheckpointsError } from "./trusted-checkpoints.ts";

const MIB = 1024 * 1024;
const log = sampleLog(3);
const KEYS = [parseVerifierKey(log.verifierKey)];
const [one = "", two = ""] = textOf(
  [1, 2].map((size) => ({ type: "checkpoint", note: log.checkpoint(size) })),
).split("\n");

let folder: string;
let path: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "gatehouse-trusted-"));
  path = join(folder, "kept");
});

afterAll(() => {
  rmSync(folder, { recursive: true });
});

async function read(text: string) {
  writeFileSync(path, text);
  const { checkpoints, tornLines } = await readTrustedCheckpoints(path, KEYS);
  return { sizes: checkpoints.map(({ size }) => size), tornLines };
}

const printed = (members: object) => JSON.stringify({ level: "info", ...members });

test("stored checkpoints are read in order, and incomplete lines are counted", async () => {
  expect(await read(`${two}\n${one}\n`)).toEqual({ sizes: [2, 1], tornLines: 0 });
  expect(await read(`${one.slice(0, 60)}\n${two}\n${one.slice(0, 9)}`)).toEqual({ sizes: [2], tornLines: 2 });
  expect(await read(`${one}\n\n`)).toEqual({ sizes: [1], tornLines: 1 });
  expect(await read("")).toEqual({ sizes: [], tornLines: 0 });
});

test("checkpoints in a service's log output are read, and other lines are ignored", async () => {
  const note = log.checkpoint(3);
  const lines = [
    printed({ msg: "checkpoint", checkpoint: note }),
    printed({ msg: "checkpoint", checkpoint: 5 }),
    printed({ msg: "other", checkpoint: note }),
    printed({ msg: "checkpoint", checkpoint: note }).slice(0, 60),
    '{"level":"cut}',
  ];
  expect(await read(lines.join("\n"))).toEqual({ sizes: [3], tornLines: 0 });
});

test("the first line that is not a checkpoint is reported with the reason", async () => {
  const refused = (text: string, code: string, message: string) =>
    expect(read(text)).rejects.toThrow(
      expect.objectContaining({ name: "TrustedCheckpointsError", code, message: `${path}: ${message}` }),
    );
  await refused(`${one}\n${two}\r\n`, "form", "line 2 is not JSON in canonical form");
  await refused(`${one}\nnonsense\n`, "form", "line 2 is not JSON");
  await refused(`${one}\n{"type":"removal","note":""}\n`, "form", "line 2 is not a checkpoint");
  await refused(`${one}\n{"type":"checkpoint","note":5}\n`, "form", "line 2 is not a note");
  await refused(`{"type":"checkpoint","note":""}\n`, "form", "the note in line 1 is not a signed note");
  const changed = `${one}\n${one.replace("\\n1\\n", "\\n2\\n")}\n`;
  const [key] = KEYS;
  const misfit = `the note in line 2 has an invalid signature of the key ${key?.id}`;
  await refused(changed, "signature", misfit);
  const forged = printed({ msg: "checkpoint", checkpoint: log.checkpoint(3).replace("\n3\n", "\n4\n") });
  await refused(`${one}\n${forged}\n`, "signature", misfit);
});

test("a missing file is not reported as a bad checkpoint", async () => {
  const reading = readTrustedCheckpoints(join(folder, "none"), KEYS);
  await expect(reading).rejects.toMatchObject({ code: "ENOENT" });
  await expect(reading).rejects.not.toBeInstanceOf(TrustedCheckpointsError);
});

/** The line lengths of a file, batch by batch. */
async function batchesOf(text: string): Promise<number[][]> {
  writeFileSync(path, text);
  const batches = await Array.fromAsync(readLines(path));
  return batches.map((lines) => lines.map(({ length }) => length));
}

test("lines are read without line breaks, also the last one and those across chunks", async () => {
  expect(await batchesOf("")).toEqual([]);
  expect(await batchesOf("a\n\nbb")).toEqual([[1, 0], [2]]);
  expect(await batchesOf("a\n")).toEqual([[1]]);
  expect(await batchesOf(`${"x".repeat(MIB - 1)}y\nz\n`)).toEqual([[MIB, 1]]);
  expect(await batchesOf(`a\n${"x".repeat(MIB)}\nz\n`)).toEqual([[1], [MIB, 1]]);
  const [, [crossing]] = (await linesOf(`a\n${"x".repeat(MIB - 2)}yz\n`)) as [string[], string[]];
  expect(crossing?.endsWith("xyz")).toBe(true);
});

async function linesOf(text: string): Promise<string[][]> {
  writeFileSync(path, text);
  const batches = await Array.fromAsync(readLines(path));
  return batches.map((lines) => lines.map(String));
}

test("a line of more than 1 MiB is refused before more of it is read", async () => {
  await expect(batchesOf(`a\n${"x".repeat(MIB + 1)}`)).rejects.toThrow(
    new LineError(`is longer than ${MIB} bytes`),
  );
  expect(await batchesOf("x".repeat(MIB))).toEqual([[MIB]]);
});
