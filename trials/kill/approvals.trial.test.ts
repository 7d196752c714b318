import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type CrashingSystem,
  type PartName,
  startCrashingSystem,
} from "#tests/support/system/crashing-system.ts";
import { keepApproving, type World } from "../chaos/clients.ts";
import { readHistory } from "../chaos/history.ts";
import { judge, type RuleName } from "../chaos/rules.ts";
import { newWorld, routesTo, startUpstream, UNLIMITED, UNTHROTTLED } from "../chaos/system-under-load.ts";
import { say, seededRandom, until } from "../support.ts";

/** Each kills all victims once, among the payments of two users. */
const ROUNDS = Number(process.env.KILL_ROUNDS ?? 1);
const SEED = Number(process.env.KILL_SEED ?? Date.now() % 1_000_000);
const VICTIMS: readonly PartName[] = ["gateway", "identity-service", "postgres"];
const USERS = 2;
/** That reach the upstream before each kill. */
const PAYMENTS_OF_KILL = 10;
const PATIENCE_MS = 60_000;
const RULES: readonly RuleName[] = [
  "a secret for one use counts once",
  "a payment reaches the upstream once, or again with its key",
  "a payment that was answered has reached the upstream",
  "an approval is of one payment, given before it, and passes once",
  "each approval and each login with a code has used up a code",
  "our own fault is never the client's",
];
const random = seededRandom(SEED);

let upstream: Awaited<ReturnType<typeof startUpstream>>;
let system: CrashingSystem;
let world: World;
let verdict: ReturnType<typeof judge>;

/** References of the payments that have reached the upstream. */
const paid = () => new Set(upstream.received.flatMap(({ reference }) => reference ?? []));

async function untilPaid(more: number): Promise<void> {
  const enough = paid().size + more;
  await until(`${enough} payments`, async () => paid().size >= enough, PATIENCE_MS);
}

beforeAll(
  async () => {
    say(`approvals-kill: seed ${SEED}, ${ROUNDS} rounds (KILL_SEED, KILL_ROUNDS)`);
    upstream = await startUpstream();
    system = await startCrashingSystem(
      ({ name }) => (name === "gateway" ? { RATE_LIMITS: UNLIMITED } : UNTHROTTLED),
      { files: () => ({ "routes.yaml": routesTo(upstream.port) }) },
    );
    const end = new AbortController();
    world = newWorld(system, { urls: [system.url], seed: SEED + 1, signal: end.signal });
    const clients = Array.from({ length: USERS }, () => keepApproving(world));
    for (let kill = 0; kill < ROUNDS * VICTIMS.length; kill += 1) {
      const victim = VICTIMS[kill % VICTIMS.length] ?? "gateway";
      await untilPaid(PAYMENTS_OF_KILL);
      // A random moment: there is no condition to wait for.
      await sleep(random() * 300);
      await system.kill(victim);
      await system.start(victim);
    }
    await untilPaid(PAYMENTS_OF_KILL);
    end.abort();
    await Promise.all(clients);
    const history = await readHistory(system, { calls: world.calls, received: upstream.received });
    verdict = judge(history);
    const asked = new Set(world.calls.filter(({ kind }) => kind === "ask").map(({ value }) => value));
    say(`approvals-kill: ${asked.size} payments, ${history.approvals.length} approved, ${paid().size} paid`);
    expect(paid().size).toBeGreaterThan(asked.size / 2);
  },
  180_000 + ROUNDS * 90_000,
);

afterAll(async () => {
  await system?.remove();
  upstream?.close();
});

test.each(RULES)("killed at any moment: %s", (name) => {
  expect(verdict[name]).toEqual([]);
});
