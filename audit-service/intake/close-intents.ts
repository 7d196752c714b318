import { producerIdIn } from "#audit-client/stream/producer-id.ts";
import { dayOf } from "../entries/clean-entry.ts";
import type { ProducedEntry } from "../entries/entry.ts";
import type { AbandonedIntent } from "./intent-store.ts";

/** The same in all replicas, so that a closing is stored once. Its last byte is the log's. */
const CLOSINGS = "6761746c-6f67-8000-8000-636c6f736564";
const MAX_CLOSINGS = 200;

export const CLOSE_INTERVAL_MS = 5_000;
/** A longer pause means that the process was stopped. */
const MAX_PAUSE_MS = 3 * CLOSE_INTERVAL_MS;
/** A larger step means a changed clock or another server. */
const MAX_CLOCK_STEP_MS = 5_000;

interface Deps {
  /** The number of the log. */
  log: number;
  afterS: number;
  present: () => string[];
  upsertProducers: (producerIds: readonly string[]) => Promise<Date>;
  selectAbandonedIntents: (afterS: number, limit: number) => Promise<AbandonedIntent[]>;
  deleteOpenIntents: (callIds: readonly string[]) => Promise<void>;
  storeEntries: (entries: readonly ProducedEntry[]) => Promise<number>;
  onClosed: (count: number) => void;
  newId: () => string;
  now: () => Date;
  monotonicMs: () => number;
}

/**
 * Closes intents as `unknown` after their producer had no stream to any replica for `afterS`, because its calls may
 * still run. This process must first watch that long without a clock step.
 */
export function createIntentCloser(deps: Deps): () => Promise<void> {
  let watchingSinceMs: number | undefined;
  let lastRunMs = Number.NEGATIVE_INFINITY;
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
    const closings = intents.filter(({ hasOutcome }) => !hasOutcome).map((intent) => closingOf(intent, deps));
    if (closings.length > 0) deps.onClosed(await deps.storeEntries(closings));
    await deps.deleteOpenIntents(
      intents.filter(({ hasOutcome }) => hasOutcome).map(({ entry }) => entry.callId),
    );
  };
}

function closingOf({ entry, position }: AbandonedIntent, { log, newId, now }: Deps): ProducedEntry {
  const { userId, role, sessionId } = entry.actor;
  return {
    origin: {
      producerId: producerIdIn(log, CLOSINGS),
      producerName: "audit-service",
      sequence: Number(position),
      // The same in all replicas.
      day: dayOf(entry.occurredAt),
    },
    entry: {
      ...entry,
      id: newId(),
      kind: "outcome",
      outcome: "unknown",
      occurredAt: now(),
      actor: { userId, role, sessionId, claimedEmail: "" },
      errorCode: "",
      reason: "",
      httpStatus: 0,
      latencyUs: 0,
    },
  };
}
