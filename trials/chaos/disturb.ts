import { setTimeout as sleep } from "node:timers/promises";
import type { TestRedis } from "#tests/support/database/redis.ts";
import type { CrashingSystem, PartName } from "#tests/support/system/crashing-system.ts";
import type { FaultyEdge } from "#tests/support/system/faulty-edge.ts";
import type { PlannedFault } from "./plan.ts";

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
