import { setTimeout as sleep } from "node:timers/promises";
import type { FailoverLoad } from "./failover-load.ts";
import type { ClusterNode, PatroniCluster } from "./patroni-cluster.ts";

/** What befalls a primary. */
export const FAULTS = ["kill PostgreSQL", "kill the node", "freeze the node", "cut the node off"] as const;
export type Fault = (typeof FAULTS)[number];

/** That the clients get through before a fault, after the election, and after the fault has ended. */
const CALLS_OF_PHASE = 60;

interface RoundOptions {
  cluster: PatroniCluster;
  load: FailoverLoad;
  payers: Parameters<FailoverLoad["run"]>[0];
  random: () => number;
}

/** One fail-over under load, from a whole cluster to a whole one. Times of `performance.now()`. */
export async function failOver(fault: Fault, { cluster, load, payers, random }: RoundOptions) {
  const [callsBefore, factsBefore] = [load.calls.length, load.facts.length];
  const end = new AbortController();
  const running = load.run(payers, end.signal);
  await load.untilAcknowledged(CALLS_OF_PHASE);
  // A random moment: there is no condition to wait for.
  await sleep(random() * 500);
  const old = await cluster.primary();
  if (old === undefined) throw new Error("there is no primary");
  const struckMs = performance.now();
  await strike(fault, old);
  const { node, atMs: electedMs } = await cluster.elected(old);
  const writableMs = await cluster.writable(node);
  await load.untilAcknowledged(CALLS_OF_PHASE);
  const overMs = performance.now();
  await relieve(fault, old);
  await load.untilAcknowledged(CALLS_OF_PHASE);
  await cluster.whole();
  end.abort();
  await running;
  const calls = load.calls.slice(callsBefore);
  const refused = calls.filter(({ status }) => status === 503);
  const ofFault = refused.filter(({ startedMs }) => startedMs < overMs);
  return {
    ...{ old, node, struckMs, electedMs, writableMs, callsBefore, factsBefore, calls, refused, ofFault },
    /** From the election to the end of the last refused call. */
    lastMs: Math.max(...ofFault.map(({ endedMs }) => endedMs - electedMs), 0),
  };
}

async function strike(fault: Fault, node: ClusterNode): Promise<void> {
  if (fault === "kill PostgreSQL") node.killPostgres();
  else if (fault === "kill the node") await node.kill();
  else if (fault === "freeze the node") node.freeze();
  else await node.cut();
}

async function relieve(fault: Fault, node: ClusterNode): Promise<void> {
  if (fault === "kill the node") node.start();
  else if (fault === "freeze the node") node.thaw();
  else if (fault === "cut the node off") await node.mend();
}
