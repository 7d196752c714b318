import { dayOf } from "../entries/clean-entry.ts";
import type { ProducedEntry } from "../entries/entry.ts";
import type { AbandonedIntent } from "./intent-store.ts";

/** "Producer" of the closings of every replica: with the intent's position as sequence, a closing is stored once. */
const CLOSINGS = "6761746c-6f67-8000-8000-636c6f736564";
const MAX_CLOSINGS = 200;

/** How often to run. */
export const CLOSE_INTERVAL_MS = 5_000;
/** A pause this long was no pause of ours: the process was stopped. */
const MAX_PAUSE_MS = 3 * CLOSE_INTERVAL_MS;
/** More than a statement may take: the database's clock was set, or another server has taken over. */
const MAX_CLOCK_STEP_MS = 5_000;

interface Deps {
  /** How long a producer must have been gone. */
  afterS: number;
  present: () => string[];
  /** Resolves to the time by the database's clock. */
  upsertProducers: (producerIds: readonly string[]) => Promise<Date>;
  selectAbandonedIntents: (afterS: number, limit: number) => Promise<AbandonedIntent[]>;
  deleteOpenIntents: (callIds: readonly string[]) => Promise<void>;
  storeEntries: (entries: readonly ProducedEntry[]) => Promise<number>;
  onClosed: (count: number) => void;
  /** A UUID that nobody can have used before. */
  newId: () => string;
  now: () => Date;
  /** Milliseconds that never step. */
  monotonicMs: () => number;
}

/**
 * Closes intents whose outcome will not come with an outcome `unknown`, once their producer has had no stream to any
 * replica for `afterS`. While it has one, its calls may still run: an upload can take minutes. Nothing is closed before
 * this process has watched for as long, by a clock that did not step: producers may have been there while nobody noted
 * it, or what other replicas have noted may only look old.
 *
 * @returns the task, to be repeated.
 */
export function createIntentCloser(deps: Deps): () => Promise<void> {
  let watchingSinceMs: number | undefined;
  let lastRunMs = Number.NEGATIVE_INFINITY;
  /** Of the database's clock, against ours that never steps. */
  let clockOffsetMs: number | undefined;

  return async () => {
    const startedMs = deps.monotonicMs();
    if (startedMs - lastRunMs > MAX_PAUSE_MS) watchingSinceMs = undefined;
    lastRunMs = startedMs;
    try {
      const offsetMs = (await deps.upsertProducers(deps.present())).getTime() - startedMs;
      const stepMs = Math.abs(offsetMs - (clockOffsetMs ?? offsetMs));
      clockOffsetMs = offsetMs;
      if (stepMs > MAX_CLOCK_STEP_MS) watchingSinceMs = undefined;
    } catch (error) {
      watchingSinceMs = undefined;
      throw error;
    }
    watchingSinceMs ??= startedMs;
    if (startedMs - watchingSinceMs < deps.afterS * 1_000) return;
    const intents = await deps.selectAbandonedIntents(deps.afterS, MAX_CLOSINGS);
    const closings = intents
      .filter(({ hasOutcome }) => !hasOutcome)
      .map((intent) => closingOf(intent, deps.now(), deps.newId()));
    if (closings.length > 0) deps.onClosed(await deps.storeEntries(closings));
    await deps.deleteOpenIntents(
      intents.filter(({ hasOutcome }) => hasOutcome).map(({ entry }) => entry.callId),
    );
  };
}

/** Closings of one intent, by whichever replicas, are one entry: all are of the intent's day. */
function closingOf({ entry, position }: AbandonedIntent, occurredAt: Date, id: string): ProducedEntry {
  const { callId, actor, clientIp, userAgent, method, route, resource, action, requestId, traceId } = entry;
  const { userId, role, sessionId } = actor;
  const origin = {
    producerId: CLOSINGS,
    producerName: "audit-service",
    sequence: Number(position),
    day: dayOf(entry.occurredAt),
  };
  return {
    origin,
    entry: {
      id,
      kind: "outcome",
      outcome: "unknown",
      occurredAt,
      actor: { userId, role, sessionId, claimedEmail: "" },
      ...{ callId, clientIp, userAgent, method, route, resource, action, requestId, traceId },
      ...{ errorCode: "", reason: "", httpStatus: 0, latencyUs: 0 },
    },
  };
}
