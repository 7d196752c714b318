import { transaction } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import { appendRevocations } from "../revocations/revocation-store.ts";
import { accessTokenLifeS } from "../revocations/token-lifetimes.ts";
import type { SessionPart } from "./open-part.ts";
import type { Parts } from "./parts.ts";
import {
  dropSessions,
  forgetLeaving,
  listLeaving,
  lockSlot,
  putIn,
  readLeaving,
  readSlot,
  type SlotRow,
  takeOut,
  writeSlot,
} from "./slot-move-store.ts";

export interface MoveSlotsDeps {
  parts: Parts<SessionPart>;
  lifetimes: { accessTtlS: number };
}

interface Moved {
  /** Ended ones included. */
  sessions: number;
  /** For which they could not be used. */
  awayMs: number;
}

type Place = SlotRow & { part: SessionPart };

/** Beyond it two operators move the same slot to and fro. */
const MAX_STEPS = 8;
/** Clocks of the service and of a database differ by less. */
const CLOCK_ROOM_S = 60;

/**
 * Moves a slot's sessions to a part, or finishes what somebody else has begun (docs/decisions/parts.md). Every step is one
 * transaction, and can be repeated. @param target undefined: wherever it is on its way to.
 * @throws {DomainError} `service_unavailable` if a part cannot be asked, `conflict` if others move it as well.
 */
export async function moveSlot(
  deps: MoveSlotsDeps,
  slot: number,
  target: SessionPart | undefined,
): Promise<Moved> {
  const moved = { sessions: 0, awayMs: 0 };
  let leftMs: number | undefined;
  for (let step = 0; step < MAX_STEPS; step += 1) {
    const places = await readPlaces(deps, slot);
    const leaving = places.find(({ state }) => state === "leaving");
    const [newest, ...older] = places
      .filter(({ state }) => state === "here")
      .sort((a, b) => b.epoch - a.epoch);
    if (leaving !== undefined) {
      leftMs ??= performance.now();
      moved.sessions += await arrive(deps, slot, leaving);
      moved.awayMs = performance.now() - leftMs;
    } else if (older.length > 0) await Promise.all(older.map((place) => release(slot, place, newest)));
    else if (target === undefined || newest?.part === target) return moved;
    else if (newest === undefined) {
      // The parts were not read at one moment: a slot that arrived meanwhile looked away in both, and is somewhere now.
      const isStill = (await readPlaces(deps, slot)).every(
        ({ state, epoch }, index) => state === places[index]?.state && epoch === places[index]?.epoch,
      );
      if (isStill) await adopt(slot, target, places);
    } else {
      leftMs = performance.now();
      await leave(slot, newest, target, nextEpoch(places));
    }
  }
  throw new DomainError("conflict", `Slot ${slot} is being moved by others`);
}

const readPlaces = (deps: MoveSlotsDeps, slot: number): Promise<Place[]> =>
  Promise.all(deps.parts.all.map(async (part) => ({ part, ...(await readSlot(part.sql, slot)) })));

/** Later than what any part has seen: of an epoch that its target has seen, the sessions would count as arrived, and be dropped. */
const nextEpoch = (places: readonly Place[]): number => Math.max(...places.map(({ epoch }) => epoch)) + 1;

async function leave(slot: number, { part, epoch }: Place, target: SessionPart, next: number): Promise<void> {
  await transaction(part.sql, async (tx) => {
    const row = await lockSlot(tx, slot);
    if (row.state !== "here" || row.epoch !== epoch) return;
    await takeOut(tx, slot);
    await writeSlot(tx, slot, { state: "leaving", epoch: next, peer: target.number });
  });
}

async function arrive(deps: MoveSlotsDeps, slot: number, { part, epoch, peer }: Place): Promise<number> {
  const target = deps.parts.all.find(({ number }) => number === peer);
  if (target === undefined)
    throw new DomainError("conflict", `Slot ${slot} is leaving for part ${peer}, which is not known`);
  const text = await readLeaving(part.sql, slot);
  const lifeS = accessTokenLifeS(deps.lifetimes.accessTtlS);
  const sessions = await transaction(target.sql, async (tx) => {
    // With this epoch, or a later one, it has arrived before.
    if ((await lockSlot(tx, slot)).epoch >= epoch) return 0;
    const arrived = await putIn(tx, slot, text, lifeS + CLOCK_ROOM_S);
    await writeSlot(tx, slot, { state: "here", epoch, peer: null });
    const targets = arrived.endedIds.map((sessionId) => ({ sessionId }));
    if (targets.length > 0) await appendRevocations(tx, targets, lifeS);
    return arrived.sessions;
  });
  target.revocations.announce();
  await transaction(part.sql, async (tx) => {
    const row = await lockSlot(tx, slot);
    if (row.state !== "leaving" || row.epoch !== epoch) return;
    await forgetLeaving(tx, slot);
    await writeSlot(tx, slot, { state: "away", epoch, peer });
  });
  part.revocations.announce();
  return sessions;
}

/** A database that was restored says what was true before the slot left. */
async function release(slot: number, { part, epoch }: Place, newest: Place | undefined): Promise<void> {
  if (newest === undefined || newest.epoch <= epoch)
    throw new DomainError("conflict", `Slot ${slot} is in two parts, of the same epoch`);
  await transaction(part.sql, async (tx) => {
    const row = await lockSlot(tx, slot);
    if (row.state !== "here" || row.epoch !== epoch) return;
    await dropSessions(tx, slot);
    await writeSlot(tx, slot, { state: "away", epoch: newest.epoch, peer: newest.part.number });
  });
}

/** No part has it: the one that had has lost it, with its sessions. All others refuse it before one takes it. */
async function adopt(slot: number, target: SessionPart, places: readonly Place[]): Promise<void> {
  const epoch = nextEpoch(places);
  const claim = (part: SessionPart, state: SlotRow["state"]) =>
    transaction(part.sql, async (tx) => {
      const row = await lockSlot(tx, slot);
      if (row.state !== "away" || row.epoch >= epoch)
        throw new DomainError("conflict", `Slot ${slot} is being moved by others`);
      await writeSlot(tx, slot, { state, epoch, peer: null });
    });
  for (const { part } of places) if (part !== target) await claim(part, "away");
  await claim(target, "here");
}

/** @returns a task that finishes, at its second look, what another replica has left, and says which slots it could not. */
export function createSlotSettler(deps: MoveSlotsDeps): () => Promise<void> {
  const { parts } = deps;
  let before = new Set<number>();
  return async () => {
    const isTwice = (slot: number) => parts.all.some(({ revocations }) => revocations.holds(slot));
    // Also of a slot that another part has: it is a copy that was not forgotten, or newer than a restored database.
    const leaving = parts.areFresh ? await Promise.all(parts.all.map(({ sql }) => listLeaving(sql))) : [];
    const twice = parts.areFresh ? parts.astraySlots().filter(isTwice) : [];
    const open = new Set([...leaving.flat(), ...twice]);
    const stayed = [...open].filter((slot) => before.has(slot));
    before = open;
    let failure: unknown;
    for (const slot of stayed) {
      await moveSlot(deps, slot, undefined).catch((error: unknown) => {
        failure = error;
      });
    }
    if (failure !== undefined) throw failure;
  };
}
