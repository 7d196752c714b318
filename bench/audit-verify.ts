/**
 * How long `gatehouse audit verify` takes for an export, in one process, from its start to its end: entries as a log of payments
 * has them, a checkpoint for every thousand.
 *
 *   npm run bench:audit-verify [-- <entries>]
 */
import { spawnSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { sampleLog, textOf } from "../cli/audit-verifier/log.fixture.ts";

const AIM_S = 30;
const CHECKPOINT_EVERY = 1_000;
const BLOCK = 1_000;

const size = Number(process.argv[2] ?? 1_000_000);
const folder = mkdtempSync(join(tmpdir(), "gatehouse-bench-"));
try {
  const file = join(folder, "export.jsonl");
  const checkpoints = join(folder, "checkpoints.jsonl");
  const verifierKey = writeExport(file, checkpoints);
  console.log(`${size} entries, ${(statSync(file).size / 1e6).toFixed(0)} MB`);
  const program = resolve(import.meta.dirname, "..", "cli", "gatehouse.ts");
  const args = ["audit", "verify", file, "--key", verifierKey, "--checkpoints", checkpoints, "--json"];
  for (let round = 0; round < 3; round += 1) {
    const startedMs = performance.now();
    const timed = `process.on("exit",()=>{const{userCPUTime:u,systemCPUTime:s,maxRSS:m}=process.resourceUsage();console.error((u+s)/1e6,m/1024)})`;
    const preload = `data:text/javascript,${encodeURIComponent(timed)}`;
    const { status, stdout, stderr } = spawnSync(process.execPath, ["--import", preload, program, ...args], {
      encoding: "utf8",
    });
    const seconds = (performance.now() - startedMs) / 1_000;
    if (status !== 0) throw new Error(`ended with ${status}: ${stdout}${stderr}`);
    const [cpu, megabytes] = stderr.trim().split(" ").map(Number);
    console.log(
      `${seconds.toFixed(1)} s (aim: ${AIM_S} s for 1,000,000), ${cpu?.toFixed(1)} s CPU, ${Math.round(size / seconds)} entries/s, ${megabytes?.toFixed(0)} MiB at most`,
    );
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function writeExport(file: string, checkpointsFile: string): string {
  const log = sampleLog(size);
  const sizes = Array.from(
    { length: Math.floor(size / CHECKPOINT_EVERY) },
    (_, index) => (index + 1) * CHECKPOINT_EVERY,
  );
  if (sizes.at(-1) !== size) sizes.push(size);
  const checkpoints = sizes.map((of) => ({ type: "checkpoint", note: log.checkpoint(of) }));
  const [head] = log.export({ last: 0, checkpoints: [] });
  const descriptor = openSync(file, "w");
  writeFileSync(descriptor, textOf([{ ...head, lastSequence: size }]));
  for (let from = 0; from < size; from += BLOCK) {
    writeFileSync(descriptor, textOf(log.entries.slice(from, from + BLOCK)));
  }
  writeFileSync(descriptor, textOf(checkpoints));
  closeSync(descriptor);
  writeFileSync(checkpointsFile, textOf(checkpoints));
  return log.verifierKey;
}
