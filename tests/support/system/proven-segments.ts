import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { openLogCheckpoint } from "#cli/audit-verifier/checkpoint.ts";
import { parseExportLine } from "#cli/audit-verifier/export-line.ts";
import { parseVerifierKey } from "#cli/audit-verifier/signed-note.ts";
import { verifyLogs } from "#cli/audit-verifier/verify-logs.ts";
import type { Manifest } from "#event-service/siem/segments.ts";

/** By name, all that a place has. */
export type Objects = ReadonlyMap<string, Buffer>;

export async function readFolder(root: string): Promise<Objects> {
  const found = await readdir(root, { recursive: true, withFileTypes: true });
  const names = found.filter((one) => one.isFile()).map((one) => join(one.parentPath, one.name));
  const read = await Promise.all(
    names.toSorted().map(async (path) => [path.slice(root.length + 1), await readFile(path)] as const),
  );
  return new Map(read);
}

/**
 * What a SIEM may rely on: every manifest has its segment whole, each follows the one before without a gap, and the house's
 * verifier proves each. @returns `log:first-last`.
 */
export async function provenSegments(objects: Objects, verifierKey: string): Promise<string[]> {
  const manifests = [...objects]
    .filter(([name]) => name.endsWith(".manifest.json"))
    .map(([, bytes]) => JSON.parse(bytes.toString()) as Manifest);
  const keys = [parseVerifierKey(verifierKey)];
  const checkpoints = manifests.map(({ checkpoint }) => openLogCheckpoint(checkpoint, keys));
  const former = new Map<number, Manifest>();
  for (const manifest of manifests) {
    const before = former.get(manifest.log);
    if (manifest.former !== (before?.name ?? null) || (before && manifest.first !== before.last + 1))
      throw new Error(`${manifest.name} does not follow`);
    former.set(manifest.log, manifest);
    const bytes = objects.get(manifest.name) ?? Buffer.of();
    const sha256 = createHash("sha256").update(bytes).digest("hex");
    if (sha256 !== manifest.sha256 || bytes.length !== manifest.bytes)
      throw new Error(`${manifest.name} is not whole`);
    const lines = bytes.toString("latin1").trimEnd().split("\n");
    const verdict = await verifyLogs({
      batches: inOne(lines.map((line) => Buffer.from(line, "latin1"))),
      read: parseExportLine,
      trust: { keys, checkpoints, isPartial: true },
    });
    const [log] = verdict.logs;
    if (
      verdict.result !== "proven" ||
      log?.lastSequence !== manifest.last ||
      log.trustedUpTo !== manifest.last
    )
      throw new Error(`${manifest.name}: ${JSON.stringify(verdict)}`);
  }
  return manifests.map(({ log, first, last }) => `${log}:${first}-${last}`);
}

async function* inOne<T>(batch: T): AsyncGenerator<T> {
  yield batch;
}
