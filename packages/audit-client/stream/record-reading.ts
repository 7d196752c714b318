import { type CallContext, traceIdOf } from "#kit/rpc/call-context.ts";
import { boundedCache } from "#kit/values/bounded-cache.ts";
import { canonicalEmail } from "#kit/values/canonical-email.ts";
import { uuidv7 } from "#kit/values/uuid-v7.ts";
import type { AUDIT_ACTIONS } from "./audit-actions.ts";
import { type AuditEventRecorder, personActor } from "./audit-entry.ts";

export interface Reading {
  /** A change of a webhook by an operator is recorded as a reading is: before it takes effect. */
  action: (typeof AUDIT_ACTIONS.reading | typeof AUDIT_ACTIONS.webhook)[number];
  resource?: string;
  /** Must not contain personal data. */
  filter?: string;
  /** Can be erased from the log. */
  address?: string;
}

/** @throws {DomainError} `audit_unavailable`. The call must then fail. */
export type RecordReading = (context: CallContext, reading: Reading) => Promise<void>;

/** Records only calls of operators and auditors. */
export function createReadingRecorder(recorder: AuditEventRecorder, now: () => Date): RecordReading {
  return async (context, { action, resource, filter, address }) => {
    if (context.person === undefined) return;
    const actor = { ...personActor(context.person), ...(address !== undefined && { claimedEmail: address }) };
    await recorder.recordEvent(
      {
        kind: "event",
        id: uuidv7(),
        occurredAt: now(),
        actor,
        action,
        resource: resource ?? "",
        clientIp: "",
        userAgent: "",
        ...(filter !== undefined && { reason: filter }),
        requestId: context.requestId,
        traceId: traceIdOf(context),
        outcome: "success",
      },
      context.deadlineMs,
    );
  };
}

/** `name=value`. A value that is no plain word is a string of JSON, so that it cannot be read as another filter. */
export function filterText(
  fields: Readonly<Record<string, string | number | boolean | Date | undefined>>,
): string {
  return Object.entries(fields)
    .filter(([, value]) => value !== undefined && value !== "")
    .map(([name, value]) => `${name}=${value instanceof Date ? value.toISOString() : wordOf(String(value))}`)
    .join(" ");
}

const WORD = /^[\w.:/-]+$/;

function wordOf(value: string): string {
  return WORD.test(value) ? value : JSON.stringify(value);
}

/** Returns a canonical address, or the length of any other query. */
export function lookedFor(query: string): { address?: string; queryCharacters?: number } {
  if (query === "") return {};
  if (!/^[^@\s]+@[^@\s]+$/.test(query)) return { queryCharacters: query.length };
  return { address: canonicalEmail(query) ?? query };
}

/** How long a record stands for what is read again. */
const RECORDED_MS = 10 * 60_000;
const MAX_FOLLOWINGS = 1_000;
const MAX_REPEATED = 20_000;

/**
 * Records what is read again and again once in ten minutes. Remembers in memory: each process records for itself.
 * @param key who reads, and what. @param record if it throws, nothing may be read.
 */
export type RecordRepeated = (key: string, record: () => Promise<void>) => Promise<void>;

export function createRepeatedRecorder(monotonicMs: () => number): RecordRepeated {
  const recorded = boundedCache<string, number>(MAX_REPEATED);
  return async (key, record) => {
    if (monotonicMs() - (recorded.get(key) ?? Number.NEGATIVE_INFINITY) < RECORDED_MS) return;
    await record();
    recorded.set(key, monotonicMs());
  };
}

/** A place in the log of a number: of the last entry before it. */
interface LogPlace {
  log: number;
  sequence: number;
}

/**
 * Records who reads the logs from a place on: at once, then every ten minutes, and for each place before the recorded one. A record
 * of each call would be an entry, which the follower reads, and so would never end. Whatever was read is after the place in a record
 * of the last ten minutes.
 * @param record if it throws, nothing may be read.
 */
type RecordFollowing = (
  follower: Readonly<Record<string, string | undefined>>,
  after: readonly LogPlace[],
  record: () => Promise<void>,
) => Promise<void>;

/** Remembers in memory: each process records for itself. */
export function createFollowingRecorder(monotonicMs: () => number): RecordFollowing {
  const recorded = boundedCache<string, ReadonlyMap<number, { atMs: number; sequence: number }>>(
    MAX_FOLLOWINGS,
  );
  return async (follower, after, record) => {
    const key = JSON.stringify(follower);
    const isNew = ({ log, sequence }: LogPlace) => {
      const last = recorded.get(key)?.get(log);
      return last === undefined || monotonicMs() - last.atMs >= RECORDED_MS || sequence < last.sequence;
    };
    if (!after.some(isNew)) return;
    await record();
    const atMs = monotonicMs();
    const places = after.filter(isNew).map(({ log, sequence }) => [log, { atMs, sequence }] as const);
    recorded.set(key, new Map([...(recorded.get(key) ?? []), ...places]));
  };
}
