import { DomainError, invalidField } from "#kit/values/errors.ts";
import { type ProvenEntry, selectProvenEntries } from "../entries/entry-store.ts";
import {
  selectCheckpointCovering,
  selectCheckpoints,
  selectLastCheckpoint,
} from "../log/checkpoint-store.ts";
import { FIRST_CHAIN_HASH } from "../log/leaf.ts";
import { type Removal, selectRemovals } from "../log/retention-store.ts";
import { compactRange } from "../log/tree-proofs.ts";
import { selectLeaf } from "../log/tree-store.ts";
import type { ReadableLog } from "../logs/logs.ts";

export type ExportLine =
  | {
      kind: "log";
      log: {
        origin: string;
        firstSequence: number;
        lastSequence: number;
        treeHead: Buffer[];
        chainHash: Buffer;
      };
    }
  | { kind: "removal"; note: string }
  | { kind: "entry"; entry: ProvenEntry }
  | { kind: "checkpoint"; note: string };

const CHUNK = 250;

/**
 * Ends with the first checkpoint that covers the wanted end.
 * @param wanted 0 stands for the first kept entry, and for the last one with a checkpoint.
 * @throws {DomainError} `validation_failed`, or `not_found` for removed or future entries.
 */
export async function* exportEntries(
  log: ReadableLog,
  wanted: { first: number; last: number },
): AsyncGenerator<ExportLine, void> {
  const { sql, origin } = log;
  const removals = await selectRemovals(sql);
  const { first, last } = await findSpan(log, wanted, removals);
  const before = first === 1 ? undefined : await selectLeaf(sql, first - 1);
  yield {
    kind: "log",
    log: {
      origin,
      firstSequence: first,
      lastSequence: last,
      treeHead: first === 1 ? [] : await compactRange(sql, first - 1),
      chainHash: before?.chainHash ?? FIRST_CHAIN_HASH,
    },
  };
  for (const { lastSequence, note } of removals) {
    if (lastSequence < first) yield { kind: "removal", note };
  }
  for (let next = first; next <= last; ) {
    const entries = await selectProvenEntries(sql, { first: next, last: Math.min(next + CHUNK - 1, last) });
    for (const entry of entries) {
      // An export must not have a gap.
      if (entry.entry.sequence !== next) throw new DomainError("not_found");
      next += 1;
      yield { kind: "entry", entry };
    }
    if (entries.length === 0) throw new DomainError("not_found");
  }
  for (let after = first - 1; after < last; ) {
    const checkpoints = await selectCheckpoints(sql, origin, { after, last, limit: CHUNK });
    for (const { note } of checkpoints) yield { kind: "checkpoint", note };
    after = checkpoints.at(-1)?.size ?? last;
  }
}

async function findSpan(
  { sql, origin }: ReadableLog,
  wanted: { first: number; last: number },
  removals: readonly Removal[],
): Promise<{ first: number; last: number }> {
  const firstKept = (removals.at(-1)?.lastSequence ?? 0) + 1;
  const first = wanted.first === 0 ? firstKept : wanted.first;
  if (first < firstKept) throw new DomainError("not_found");
  if (wanted.last !== 0 && wanted.last < first) {
    throw invalidField("lastSequence", "out_of_range", "must be at least the first sequence");
  }
  const end =
    wanted.last === 0
      ? await selectLastCheckpoint(sql, origin)
      : await selectCheckpointCovering(sql, origin, wanted.last);
  if (end === undefined || end.size < first) throw new DomainError("not_found");
  return { first, last: end.size };
}
