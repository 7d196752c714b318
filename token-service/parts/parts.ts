import { setTimeout } from "node:timers/promises";
import type { RevocationSet } from "#token-client/revocation-set.ts";
import { SLOTS, slotOfSession } from "#token-client/session-slot.ts";
import type { RevocationBatch, RevocationFeed } from "../revocations/revocation-feed.ts";
import { LOG_BEGIN, type LogPosition } from "../revocations/revocation-store.ts";
import { SlotAwayError } from "../rows/slot-store.ts";

export interface Part {
  /** 0 also has the keys, and what is of clients. */
  number: number;
  revocations: RevocationFeed;
}

/** What one part says, and for how current all of them are. */
export interface PartsBatch extends RevocationBatch {
  /** Undefined if there is one part, with all users. */
  part: { number: number; caughtUp: boolean; elapsedMs: number; readAt: Date } | undefined;
}

/** Of a call that finds its user's sessions on their way. */
const MAX_WAIT_MS = 2_000;
const PAUSE_MS = 20;

/** The databases that have the users' sessions, each those of its slots (docs/decisions/parts.md). */
export class Parts<P extends Part = Part> {
  readonly all: readonly [P, ...P[]];
  readonly #known: RevocationSet;
  #looking: Promise<void> | undefined;

  /** @param known what the logs of all parts revoke. */
  constructor(all: readonly [P, ...P[]], known: RevocationSet) {
    this.all = all;
    this.#known = known;
  }

  /** Undefined while the slot's sessions are in none, or two say that they have them. */
  holderOf(slot: number): P | undefined {
    const [holder, ...others] = this.all.filter(({ revocations }) => revocations.holds(slot));
    return others.length === 0 ? holder : undefined;
  }

  /**
   * Works where the slot's sessions are, again after they have moved.
   * @throws {DomainError} `service_unavailable` if they are on their way for too long.
   */
  async at<T>(slot: number, work: (part: P) => Promise<T>): Promise<T> {
    const untilMs = performance.now() + MAX_WAIT_MS;
    for (;;) {
      try {
        const holder = this.holderOf(slot);
        if (holder === undefined) throw new SlotAwayError(slot);
        return await work(holder);
      } catch (error) {
        const mayArrive = error instanceof SlotAwayError && this.areFresh && performance.now() <= untilMs;
        if (!mayArrive) throw error;
      }
      await this.#lookAgain();
    }
  }

  /** One for all calls that wait: however many they are, the databases are asked at this pace. */
  #lookAgain(): Promise<void> {
    this.#looking ??= setTimeout(PAUSE_MS)
      .then(() => Promise.allSettled(this.all.map(({ revocations }) => revocations.refresh())))
      .then(() => {
        this.#looking = undefined;
      });
    return this.#looking;
  }

  announce(): void {
    for (const { revocations } of this.all) revocations.announce();
  }

  isSessionRevoked(sessionId: string): boolean {
    return this.#known.hasSession(sessionId);
  }

  isKeyRevoked(keyId: string): boolean {
    return this.#known.hasKey(keyId);
  }

  /**
   * @param sessionId of a user. Undefined: of keys and of clients only. @returns a promise while its slot is on its way.
   * @throws {DomainError} `service_unavailable` while there may be entries that were not read.
   */
  assertFresh(sessionId?: string): Promise<void> | undefined {
    const [first] = this.all;
    first.revocations.assertFresh();
    if (sessionId === undefined) return undefined;
    const slot = slotOfSession(sessionId);
    const holder = this.holderOf(slot);
    if (holder === undefined) return this.at(slot, async ({ revocations }) => revocations.assertFresh());
    holder.revocations.assertFresh();
    return undefined;
  }

  /** Batches of all parts, each as `RevocationFeed.watch`. Ends with an error if the first part cannot be read. */
  async *watch(after: LogPosition, signal: AbortSignal): AsyncGenerator<PartsBatch> {
    const end = new AbortController();
    const known = decodePosition(after);
    const watches = this.all.map(({ number, revocations }, index) => {
      const position = known.get(number) ?? LOG_BEGIN;
      const waits = index > 0;
      const batches = revocations.watch(position, AbortSignal.any([signal, end.signal]), { waits });
      return { number, position, batches, newest: undefined as RevocationBatch | undefined };
    });
    const ready: { watch: (typeof watches)[number]; result: IteratorResult<RevocationBatch> }[] = [];
    let failure: { error: unknown } | undefined;
    let wake: () => void = () => undefined;
    // One each at a time: a caller that reads slowly holds up what is sent, not what is kept.
    const pull = (watch: (typeof watches)[number]) => {
      const take = (result: IteratorResult<RevocationBatch>) => void ready.push({ watch, result });
      const fail = (error: unknown) => {
        failure = { error };
      };
      watch.batches
        .next()
        .then(take, fail)
        .finally(() => wake());
    };
    try {
      const [first, ...others] = watches;
      if (first !== undefined) pull(first);
      while (!signal.aborted) {
        if (failure !== undefined) throw failure.error;
        const next = ready.shift();
        if (next === undefined) {
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
          continue;
        }
        const { watch, result } = next;
        if (result.done) return;
        // The first part has the keys, which no batch may lack.
        if (watch === first && watch.newest === undefined) others.forEach(pull);
        watch.newest = result.value;
        watch.position = result.value.position;
        yield together(watch.number, result.value, watches);
        pull(watch);
      }
    } finally {
      end.abort();
    }
  }

  /** Whether every part's log has been read lately. */
  get areFresh(): boolean {
    return this.all.every(({ revocations }) => revocations.isFresh);
  }

  /** Of which no part has the sessions, or more than one. */
  astraySlots(): number[] {
    return Array.from({ length: SLOTS }, (_, slot) => slot).filter((slot) => !this.holderOf(slot));
  }
}

interface Watched {
  number: number;
  position: LogPosition;
  newest: RevocationBatch | undefined;
}

/** For callers that do not know of parts, all of them count as the oldest, and as one that lacks the slots of no part. */
function together(number: number, batch: RevocationBatch, watches: readonly Watched[]): PartsBatch {
  const newest = watches.map((watch) => watch.newest);
  const known = newest.filter((each) => each !== undefined);
  const isAll = known.length === watches.length && haveAllSlots(known);
  if (isAll && watches.length === 1) return { ...batch, part: undefined };
  const { caughtUp, elapsedMs, readAt } = batch;
  const oldest = known.reduce((a, b) => (b.elapsedMs < a.elapsedMs ? b : a), batch);
  const keys = watches[0]?.newest?.keys ?? [];
  return {
    ...batch,
    keys,
    position: encodePosition(watches),
    caughtUp: isAll && known.every((each) => each.caughtUp),
    elapsedMs: oldest.elapsedMs,
    readAt: oldest.readAt,
    part: { number, caughtUp, elapsedMs, readAt },
  };
}

function haveAllSlots(batches: readonly RevocationBatch[]): boolean {
  for (let byte = 0; byte < SLOTS / 8; byte += 1) {
    let bits = 0;
    for (const { slots } of batches) bits |= slots.bits[byte] ?? 0;
    if (bits !== 0xff) return false;
  }
  return true;
}

const OTHER_POSITION = /^(\d{1,2}):(\d{1,15}):([0-9a-f-]{0,36})$/;

/** As of the first part alone, with those of the others behind its tip. */
function encodePosition([first, ...others]: readonly Watched[]): LogPosition {
  const { sequence, tip } = first?.position ?? LOG_BEGIN;
  const rest = others.map(({ number, position }) => `${number}:${position.sequence}:${position.tip}`);
  return { sequence, tip: [tip, ...rest].join(";") };
}

function decodePosition({ sequence, tip }: LogPosition): ReadonlyMap<number, LogPosition> {
  const [own = "", ...others] = tip.split(";");
  const known = new Map([[0, { sequence, tip: own }]]);
  for (const text of others) {
    const [, number, at, otherTip = ""] = OTHER_POSITION.exec(text) ?? [];
    if (number !== undefined) known.set(Number(number), { sequence: Number(at), tip: otherTip });
  }
  return known;
}
