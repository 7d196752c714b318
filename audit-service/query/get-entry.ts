import { DomainError, invalidField } from "#kit/values/errors.ts";
import type { LogEntry, PlacedEntry } from "../entries/entry.ts";
import { selectEntriesById, selectProvenEntries } from "../entries/entry-store.ts";
import {
  type StoredCheckpoint,
  selectCheckpointCovering,
  selectLastCheckpoint,
} from "../log/checkpoint-store.ts";
import { leafData } from "../log/leaf.ts";
import { findNotedCheckpoints } from "../log/noted-checkpoints.ts";
import { type Logs, logNumbered, type ReadableLog } from "../logs/logs.ts";
import { proveInclusion } from "./prove.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

interface Proof {
  leaf: { hash: Buffer; data: string };
  /** Undefined until a checkpoint covers the entry. */
  covered: { proof: Buffer[]; checkpoint: string } | undefined;
}

export interface EntryWithProof {
  entry: PlacedEntry;
  /** Undefined until it has a number. */
  proof: Proof | undefined;
  /** Proves the entry of log 0 that commits to the checkpoint. */
  noted: Proof | undefined;
}

/** @throws {DomainError} `validation_failed`, `not_found`. */
export async function getEntry(
  logs: Logs<ReadableLog>,
  wanted: { id: string; sequence: number; log: number },
): Promise<EntryWithProof> {
  const found = await find(logs, wanted);
  if (found === undefined) throw new DomainError("not_found");
  const { log } = found;
  const entry = { ...found.entry, log: log.number };
  if (entry.sequence === 0) return { entry, proof: undefined, noted: undefined };
  const commitment = log.number === 0 ? undefined : await findCommitment(logs[0], log, entry.sequence);
  if (commitment !== undefined) {
    const { checkpoint, noted } = commitment;
    return { entry, proof: await proveEntry(log, entry, checkpoint), noted };
  }
  const last = await selectLastCheckpoint(log.sql, log.origin);
  return { entry, proof: await proveEntry(log, entry, last), noted: undefined };
}

async function proveEntry(
  { sql }: ReadableLog,
  entry: LogEntry,
  checkpoint: StoredCheckpoint | undefined,
): Promise<Proof> {
  const { sequence } = entry;
  const size = Math.max(checkpoint?.size ?? 0, sequence);
  const { proof, leafHash } = await proveInclusion(sql, sequence, size);
  return {
    leaf: { hash: leafHash, data: leafData(entry) },
    covered: checkpoint?.size === size ? { proof, checkpoint: checkpoint.note } : undefined,
  };
}

/** A checkpoint that covers the entry, and what log 0 has of it under its own last one. */
async function findCommitment(first: ReadableLog, log: ReadableLog, sequence: number) {
  const last = await selectLastCheckpoint(first.sql, first.origin);
  const noted = (await findNotedCheckpoints(first.sql, log.origin)).find(
    ({ size, entry }) => size >= sequence && entry.sequence > 0 && entry.sequence <= (last?.size ?? 0),
  );
  if (noted === undefined) return undefined;
  const checkpoint = await selectCheckpointCovering(log.sql, log.origin, noted.size);
  if (checkpoint?.size !== noted.size) return undefined;
  return { checkpoint, noted: await proveEntry(first, noted.entry, last) };
}

async function find(
  logs: Logs<ReadableLog>,
  { id, sequence, log: number }: { id: string; sequence: number; log: number },
): Promise<{ log: ReadableLog; entry: LogEntry } | undefined> {
  if (id !== "") {
    if (!UUID.test(id)) throw invalidField("id", "invalid_format", "must be a UUID");
    const found = logs.map(async (log) =>
      (await selectEntriesById(log.sql, [id])).map((entry) => ({ log, entry })),
    );
    // An id is taken once for a day of a log: who has a producer's certificate can use it again elsewhere, but not before.
    return (await Promise.all(found))
      .flat()
      .sort((a, b) => a.entry.receivedAt.getTime() - b.entry.receivedAt.getTime())[0];
  }
  if (sequence < 1) throw invalidField("sequence", "out_of_range", "must be at least 1, or the id be given");
  const log = logNumbered(logs, number);
  const [proven] = await selectProvenEntries(log.sql, { first: sequence, last: sequence });
  return proven && { log, entry: proven.entry };
}
