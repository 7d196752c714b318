import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type CrashingSystem,
  type PartName,
  startCrashingSystem,
} from "#tests/support/system/crashing-system.ts";
import { act, logIn, newUser, type World } from "../chaos/clients.ts";
import type { Call, History } from "../chaos/history.ts";
import { readHistory } from "../chaos/history.ts";
import { judge, type RuleName } from "../chaos/rules.ts";
import { newWorld, routesTo, startUpstream, UNLIMITED, UNTHROTTLED } from "../chaos/system-under-load.ts";
import { say, seededRandom } from "../support.ts";

/** `npm run trial -- kill-audit` makes many; a seed that failed can be given again. */
const ROUNDS = Number(process.env.CRASH_ROUNDS ?? 8);
const SEED = Number(process.env.CRASH_SEED ?? Date.now() % 1_000_000);
const CLIENTS = 8;
const ROUND_LIMIT_MS = 60_000;
/** That clients get through between two crashes, however slow the machine is. */
const CHANGES_OF_ROUND = 25;
const VICTIMS: readonly (readonly PartName[])[] = [
  ["gateway"],
  ["audit-service"],
  ["postgres"],
  ["gateway", "audit-service"],
  ["gateway", "postgres"],
  ["audit-service", "postgres"],
];
const RULES: readonly RuleName[] = [
  "a payment reaches the upstream once, or again with its key",
  "a change that was answered is audited once",
  "a change that was refused has no entry, or what came of it",
  "a call without an answer has at most one intent and one outcome",
  "every effect has its intent",
  "no entry is there twice",
  "no gateway has a gap in what it has recorded",
  "every event that a service owes is in the log, and no other",
  "every entry has its number, without a gap",
];

let system: CrashingSystem;
let upstream: Awaited<ReturnType<typeof startUpstream>>;
let world: World;
let history: History;
let verdict: ReturnType<typeof judge>;
const random = seededRandom(SEED);

const isCarriedOut = ({ kind, answer }: Call) =>
  ["pay", "profile", "login"].includes(kind) && (answer?.status ?? 500) < 300;
const carriedOut = () => world.calls.filter(isCarriedOut);

beforeAll(
  async () => {
    say(`audit crash test: seed ${SEED}, ${ROUNDS} rounds (CRASH_SEED, CRASH_ROUNDS)`);
    upstream = await startUpstream();
    system = await startCrashingSystem(
      ({ name }) => (name === "gateway" ? { RATE_LIMITS: UNLIMITED } : UNTHROTTLED),
      { files: () => ({ "routes.yaml": routesTo(upstream.port) }) },
    );
    const end = new AbortController();
    world = newWorld(system, { urls: [system.url], seed: SEED + 1, signal: end.signal });
    const clients = await Promise.all(Array.from({ length: CLIENTS }, startClient));
    const running = clients.map((keepChanging) => keepChanging());
    for (let round = 0; round < ROUNDS; round += 1) await crash();
    await sleep(1_000);
    end.abort();
    await Promise.all(running);
    history = await readHistory(system, { calls: world.calls, received: upstream.received });
    verdict = judge(history);
    const answered = world.calls.filter(({ answer }) => answer !== undefined);
    if (system.ended.length > 0) say(`ended without being killed: ${system.ended.join(", ")}`);
    say(
      `${world.calls.length} calls, ${answered.length} answered, ${carriedOut().length} changes carried out; ${history.entries.length} entries`,
    );
  },
  150_000 + ROUNDS * ROUND_LIMIT_MS,
);

afterAll(async () => {
  await system?.remove();
  upstream?.close();
});

test("the clients got through: this test has something to say", () => {
  expect(carriedOut().length).toBeGreaterThan(ROUNDS * 20);
  for (const wanted of ["pay", "profile"] as const)
    expect(carriedOut().some(({ kind }) => kind === wanted)).toBe(true);
  expect(world.calls.some(({ answer }) => answer === undefined)).toBe(true);
  expect(history.entries.some(({ producerName }) => producerName === "gateway")).toBe(true);
});

test.each(RULES)("%s", (name) => {
  expect(verdict[name]).toEqual([]);
});

// Nobody's session ends here: no refusal is an entry by itself.
test("no call has two intents, or an outcome without one", () => {
  const byTrace = Map.groupBy(history.entries, ({ traceId }) => traceId);
  const wrong = world.calls.filter(({ traceId }) => {
    const kinds = (byTrace.get(traceId) ?? []).map(({ kind }) => kind);
    const intents = kinds.filter((kind) => kind === "intent").length;
    return intents > 1 || kinds.filter((kind) => kind === "outcome").length > intents;
  });
  expect(wrong).toEqual([]);
});

/** A user who is there before the first crash. @returns what they do until the end. */
async function startClient(): Promise<() => Promise<void>> {
  const user = await newUser(world);
  const first = user && (await logIn(world, user));
  if (user === undefined || first === undefined) throw new Error("a client cannot log in");
  return async () => {
    let session = first;
    while (!world.signal.aborted) {
      // Earlier sessions end with the twentieth login, and their tokens after 15 minutes.
      if (world.random() < 0.02) session = (await logIn(world, user)) ?? session;
      else await act(world, session);
    }
  };
}

/** Kills one or two parts at a random moment, and starts them again a random while later. */
async function crash(): Promise<void> {
  const enough = carriedOut().length + CHANGES_OF_ROUND;
  for (const endMs = performance.now() + ROUND_LIMIT_MS / 2; performance.now() < endMs; await sleep(20))
    if (carriedOut().length >= enough) break;
  await sleep(300 + random() * 1_200);
  const victims = VICTIMS[Math.floor(random() * VICTIMS.length)] ?? [];
  await Promise.all(victims.map((name) => system.kill(name)));
  await sleep(random() * 1_200);
  // The gateway needs token-service, which needs its database.
  for (const name of [...victims].reverse()) await system.start(name);
}
