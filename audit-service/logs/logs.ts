import type { Sql } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";

/** One of the logs, as readers need it. */
export interface ReadableLog {
  /** 0 commits to the others. */
  number: number;
  /** Its database. */
  sql: Sql;
  /** The name in its checkpoints. */
  origin: string;
  /** C2SP verifier key of its checkpoints. */
  verifierKey: string;
}

/** Log 0 first, then by number. */
export type Logs<L> = readonly [L, ...L[]];

/** A place in a log. */
export interface LogPlace {
  log: number;
  /** The last entry before it. */
  sequence: number;
}

/** @throws {DomainError} `not_found` if no log has this number. */
export function logNumbered<L extends { number: number }>(logs: Logs<L>, number: number): L {
  const found = logs.find((log) => log.number === number);
  if (found === undefined) throw new DomainError("not_found", `There is no log ${number}`);
  return found;
}

/** What the checkpoints of a log begin with. @param origin of log 0. */
export function originOf(origin: string, number: number): string {
  return number === 0 ? origin : `${origin}/${number}`;
}
