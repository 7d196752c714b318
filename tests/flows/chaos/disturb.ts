import { setTimeout as sleep } from "node:timers/promises";
import type { CrashingSystem, PartName } from "../../support/crashing-system.ts";
import type { FaultyEdge } from "../../support/faulty-edge.ts";
import type { TestRedis } from "../../support/redis.ts";
import type { PlannedFault } from "./plan.ts";

export interface Disturbed {
  system: CrashingSystem;
  /** By `caller>callee`. */
  edges: ReadonlyMap<string, FaultyEdge>;
  redis: TestRedis | undefined;
}

/**
 * Makes the faults of a plan at their times, and ends each. A fault waits until the one before it at the same part has
 * ended: a slow machine makes the run longer, and leaves nothing out.
 */
export async function carryOut(plan: readonly PlannedFault[], disturbed: Disturbed): Promise<void> {
  const startMs = performance.now();
  const busy = new Map<string, Promise<void>>();
  for (const fault of plan) {
    await sleep(Math.max(0, startMs + fault.atMs - performance.now()));
    const before = busy.get(fault.whom) ?? Promise.resolve();
    const made = before.then(() => make(fault, disturbed));
    made.catch(() => undefined); // told of below
    busy.set(fault.whom, made);
  }
  await Promise.all(busy.values());
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
