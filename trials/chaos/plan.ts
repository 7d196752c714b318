import { setTimeout as sleep } from "node:timers/promises";
import type { TestRedis } from "#tests/support/database/redis.ts";
import type { CrashingSystem, PartName } from "#tests/support/system/crashing-system.ts";
import type { FaultyEdge } from "#tests/support/system/faulty-edge.ts";
import { seededRandom } from "../support.ts";

/** What is done to a part. `empty`: killed, and started again without data. */
type Deed = "kill" | "freeze" | "silent" | "refused" | "slow" | "empty";

export interface PlannedFault {
  /** From the start of the faults. */
  atMs: number;
  forMs: number;
  deed: Deed;
  /** A process, or `caller>callee`: the network between the two. */
  whom: string;
}

export const SERVICES = [
  "gateway",
  "identity-service",
  "token-service",
  "audit-service",
  "event-service",
] as const;
/** Every service has two replicas, which share nothing but the databases and Redis. */
const REPLICAS = ["", "-2"] as const;
const PROCESSES = REPLICAS.flatMap((replica) => SERVICES.map((service) => `${service}${replica}`));

const CALLEES: Record<(typeof SERVICES)[number], readonly string[]> = {
  gateway: ["identity-service", "token-service", "audit-service", "redis", "upstream"],
  "identity-service": ["token-service", "audit-service", "redis", "database", "mail"],
  "token-service": ["identity-service", "audit-service", "redis", "database"],
  "audit-service": ["database"],
  // Each has an endpoint of its own at the end of its edge, whichever of them delivers to it.
  "event-service": ["identity-service", "token-service", "audit-service", "database", "receiver"],
};
export const NETWORKS = REPLICAS.flatMap((replica) =>
  SERVICES.flatMap((caller) => CALLEES[caller].map((callee) => `${caller}${replica}>${callee}`)),
);

/** How often each kind of fault is, and how long it lasts. Frozen longer than any deadline, and than the trust in memory. */
const KINDS: readonly {
  weight: number;
  deeds: readonly Deed[];
  whom: readonly string[];
  minMs: number;
  maxMs: number;
}[] = [
  { weight: 8, deeds: ["kill"], whom: PROCESSES, minMs: 0, maxMs: 3_000 },
  { weight: 6, deeds: ["freeze"], whom: PROCESSES, minMs: 200, maxMs: 14_000 },
  { weight: 8, deeds: ["silent", "refused", "slow"], whom: NETWORKS, minMs: 200, maxMs: 8_000 },
  { weight: 1, deeds: ["kill"], whom: ["postgres"], minMs: 0, maxMs: 1_500 },
  { weight: 1, deeds: ["freeze"], whom: ["postgres"], minMs: 200, maxMs: 5_000 },
  { weight: 1, deeds: ["freeze", "empty"], whom: ["redis"], minMs: 0, maxMs: 5_000 },
];
const MEAN_PAUSE_MS = 1_200;
/** A part that was started again is left alone for as long. */
const REST_MS = 4_000;

/**
 * Of `chaos-short`: these 20 s have a fault of each kind at each service, a gateway and a token-service frozen for longer than any
 * deadline, an event-service frozen for longer than its leases, and a receiver of events that refuses.
 */
export const SHORT_SEED = 18_771_184;
export const SHORT_SECONDS = 20;

/** Decides everything before the run: the same seed and length give the same plan. The last fault ends with the plan. */
export function planFaults(seed: number, seconds: number): PlannedFault[] {
  const random = seededRandom(seed);
  const pick = <T>(list: readonly T[]) => list[Math.floor(random() * list.length)] as T;
  const weighted = KINDS.flatMap((kind) => Array.from({ length: kind.weight }, () => kind));
  const freeAtMs = new Map<string, number>();
  const plan: PlannedFault[] = [];
  for (let atMs = 0; atMs < seconds * 1_000; atMs += Math.round(random() * 2 * MEAN_PAUSE_MS)) {
    const kind = pick(weighted);
    const whom = pick(kind.whom);
    const deed = pick(kind.deeds);
    const span = kind.minMs + random() * (kind.maxMs - kind.minMs);
    const forMs = Math.round(Math.min(span, seconds * 1_000 - atMs));
    if (atMs < (freeAtMs.get(whom) ?? 0)) continue;
    freeAtMs.set(whom, atMs + forMs + REST_MS);
    plan.push({ atMs, forMs, deed, whom });
  }
  return plan;
}

/** A line for each fault. */
export const planText = (plan: readonly PlannedFault[]) =>
  plan.map(({ atMs, forMs, deed, whom }) => `  ${atMs} ms: ${deed} ${whom} for ${forMs} ms`).join("\n");

export interface Disturbed {
  system: CrashingSystem;
  /** Keyed by `caller>callee`. */
  edges: ReadonlyMap<string, FaultyEdge>;
  redis: TestRedis | undefined;
}

/** On the clock of the calls. */
export interface MadeFault extends Pick<PlannedFault, "deed" | "whom"> {
  startMs: number;
  endMs: number;
}

/**
 * Makes the faults of a plan at their times, ends each, and notes when it was. A fault waits until the one before it at the same part has
 * ended: a slow machine makes the run longer, and leaves nothing out.
 */
export async function carryOut(plan: readonly PlannedFault[], disturbed: Disturbed): Promise<MadeFault[]> {
  const faults: MadeFault[] = [];
  const startMs = performance.now();
  const busy = new Map<string, Promise<void>>();
  for (const fault of plan) {
    await sleep(Math.max(0, startMs + fault.atMs - performance.now()));
    const before = busy.get(fault.whom) ?? Promise.resolve();
    const made = before.then(async () => {
      const { deed, whom } = fault;
      const noted = { deed, whom, startMs: performance.now(), endMs: Number.POSITIVE_INFINITY };
      faults.push(noted);
      await make(fault, disturbed);
      noted.endMs = performance.now();
    });
    made.catch(() => undefined); // reported below
    busy.set(fault.whom, made);
  }
  await Promise.all(busy.values());
  return faults;
}

async function make({ deed, whom, forMs }: PlannedFault, { system, edges, redis }: Disturbed): Promise<void> {
  const edge = edges.get(whom);
  if (deed === "silent" || deed === "refused" || deed === "slow") {
    await edge?.set(deed);
    await sleep(forMs);
    await edge?.set("open");
  } else if (whom === "redis") {
    if (deed === "freeze") redis?.freeze();
    else await redis?.kill();
    await sleep(forMs);
    if (deed === "freeze") redis?.thaw();
    else await redis?.restart();
  } else if (deed === "freeze") {
    system.freeze(whom as PartName);
    await sleep(forMs);
    system.thaw(whom as PartName);
  } else {
    await system.kill(whom as PartName);
    await sleep(forMs);
    await system.launch(whom as PartName);
  }
}
