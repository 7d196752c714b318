import type { Sql } from "#kit/database/postgres.ts";
import { DomainError, invalidField } from "#kit/values/errors.ts";
import type { LogEntry } from "../entries/entry.ts";
import { selectEntriesById, selectProvenEntries } from "../entries/entry-store.ts";
import { selectLastCheckpoint } from "../log/checkpoint-store.ts";
import { leafData } from "../log/leaf.ts";
import { proveInclusion } from "./prove.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

export interface EntryWithProof {
  entry: LogEntry;
  leaf: { hash: Buffer; data: string } | undefined;
  /** Undefined until a checkpoint covers the entry. */
  covered: { proof: Buffer[]; checkpoint: string } | undefined;
}

/** @throws {DomainError} `validation_failed`, `not_found`. */
export async function getEntry(
  sql: Sql,
  origin: string,
  wanted: { id: string; sequence: number },
): Promise<EntryWithProof> {
  const entry = await find(sql, wanted);
  if (entry === undefined) throw new DomainError("not_found");
  const { sequence } = entry;
  if (sequence === 0) return { entry, leaf: undefined, covered: undefined };
  const checkpoint = await selectLastCheckpoint(sql, origin);
  const size = Math.max(checkpoint?.size ?? 0, sequence);
  const { proof, leafHash } = await proveInclusion(sql, sequence, size);
  return {
    entry,
    leaf: { hash: leafHash, data: leafData(entry) },
    covered: checkpoint?.size === size ? { proof, checkpoint: checkpoint.note } : undefined,
  };
}

async function find(
  sql: Sql,
  { id, sequence }: { id: string; sequence: number },
): Promise<LogEntry | undefined> {
  if (id !== "") {
    if (!UUID.test(id)) throw invalidField("id", "invalid_format", "must be a UUID");
    return (await selectEntriesById(sql, [id]))[0];
  }
  if (sequence < 1) throw invalidField("sequence", "out_of_range", "must be at least 1, or the id be given");
  return (await selectProvenEntries(sql, { first: sequence, last: sequence }))[0]?.entry;
}
