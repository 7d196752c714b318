/**
 * How long `gatehouse audit verify` takes for an export, in one process, from its start to its end: entries as a log of payments
 * has them, a checkpoint for every thousand. Once more with a heap of 64 MiB, which no log may outgrow.
 *
 *   npm run trial -- audit-verify [entries]
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { closeSync, mkdtempSync, openSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { type SampleLog, sampleLog, textOf } from "#cli/audit-verifier/log.fixture.ts";
import { type LoggedEntry, leafDataOf } from "#cli/audit-verifier/logged-entry.ts";
import { CompactRange, leafHashOf } from "#cli/audit-verifier/merkle.ts";

const AIM_S = 30;
const SMALL_HEAP = "--max-old-space-size=64";
const CHECKPOINT_EVERY = 1_000;

const size = Number(process.argv[2] ?? 1_000_000);
const folder = mkdtempSync(join(tmpdir(), "gatehouse-bench-"));
try {
  const file = join(folder, "export.jsonl");
  const checkpoints = join(folder, "checkpoints.jsonl");
  const verifierKey = writeExport(file, checkpoints);
  console.log(`${size} entries, ${(statSync(file).size / 1e6).toFixed(0)} MB`);
  const program = resolve(import.meta.dirname, "..", "..", "cli", "main.ts");
  const args = ["audit", "verify", file, "--key", verifierKey, "--checkpoints", checkpoints, "--json"];
  for (const options of [[], [], [], [SMALL_HEAP]]) {
    const startedMs = performance.now();
    const timed = `process.on("exit",()=>{const{userCPUTime:u,systemCPUTime:s,maxRSS:m}=process.resourceUsage();console.error((u+s)/1e6,m/1024)})`;
    const preload = `data:text/javascript,${encodeURIComponent(timed)}`;
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [...options, "--import", preload, program, ...args],
      { encoding: "utf8" },
    );
    const seconds = (performance.now() - startedMs) / 1_000;
    if (status !== 0) throw new Error(`ended with ${status}: ${stdout}${stderr}`);
    const [cpu, megabytes] = stderr.trim().split(" ").map(Number);
    console.log(
      `${seconds.toFixed(1)} s (aim: ${AIM_S} s for 1,000,000), ${cpu?.toFixed(1)} s CPU, ${Math.round(size / seconds)} entries/s, ${megabytes?.toFixed(0)} MiB at most ${options.join(" ")}`,
    );
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** The sample log's entries over and over, with numbers of their own, as fast as they can be hashed. */
function writeExport(file: string, checkpointsFile: string): string {
  const log = sampleLog(10);
  const tree = new CompactRange();
  const checkpoints: string[] = [];
  let chainHash: Buffer = Buffer.alloc(32);
  const descriptor = openSync(file, "w");
  const [head] = log.export({ last: 0, checkpoints: [] });
  writeFileSync(descriptor, textOf([{ ...head, lastSequence: size }]));
  let lines: string[] = [];
  for (let sequence = 1; sequence <= size; sequence += 1) {
    const data = leafDataOf(numbered(log, sequence)) ?? "";
    const leafHash = leafHashOf(data);
    chainHash = createHash("sha256").update(chainHash).update(leafHash).digest();
    tree.append(leafHash);
    const hashes = `"leafHash":"${leafHash.toString("base64")}","chainHash":"${chainHash.toString("base64")}"`;
    lines.push(`{"type":"entry","entry":${data},${hashes}}\n`);
    if (sequence % CHECKPOINT_EVERY !== 0 && sequence !== size) continue;
    checkpoints.push(textOf([{ type: "checkpoint", note: log.checkpoint(sequence, tree.root()) }]));
    writeFileSync(descriptor, lines.join(""));
    lines = [];
  }
  writeFileSync(descriptor, checkpoints.join(""));
  closeSync(descriptor);
  writeFileSync(checkpointsFile, checkpoints.join(""));
  return log.verifierKey;
}

function numbered({ entries }: SampleLog, sequence: number): LoggedEntry {
  const { entry } = entries[(sequence - 1) % entries.length] as (typeof entries)[number];
  const end = String(sequence).padStart(12, "0");
  return {
    ...entry,
    ...{ sequence, id: entry.id.slice(0, -12) + end, requestId: entry.requestId.slice(0, -12) + end },
    resource: `payment-${sequence}`,
  };
}
