import { setTimeout as sleep } from "node:timers/promises";
import { type Fleet, type Manner, type Part, REPLICAS } from "./fleet.ts";
import type { Version } from "./version.ts";

/** One exchange of all replicas, or of the gateways. */
export interface Round {
  name: string;
  carryOut(fleet: Fleet, versions: { old: Version; next: Version }): Promise<void>;
}

/** As `docs/operations/upgrade.md` says. */
const DOCUMENTED: readonly Part[] = [
  "audit-service",
  "token-service",
  "identity-service",
  "event-service",
  "gateway",
];
const REVERSE = DOCUMENTED.toReversed();
const SPOOL_PATIENCE_MS = 60_000;
const REST_MS = 5_000;

const inOrder = (order: readonly Part[]) =>
  order.flatMap((part) => Array.from({ length: REPLICAS }, (_, place) => [part, place] as const));

/** Every service has replicas of both versions for a time, whoever calls it. */
const MIXED = [
  ["token-service", 0],
  ["gateway", 0],
  ["identity-service", 1],
  ["event-service", 1],
  ["audit-service", 0],
  ["gateway", 1],
  ["identity-service", 0],
  ["audit-service", 1],
  ["event-service", 0],
  ["token-service", 1],
] as const;

function exchange(
  name: string,
  to: "old" | "next",
  order: readonly (readonly [Part, number])[],
  manner: Manner,
): Round {
  return {
    name,
    async carryOut(fleet, versions) {
      for (const [part, place] of order) await fleet.replace(part, place, versions[to], manner);
    },
  };
}

/** The gateways are exchanged while audit-service is away, so that each finds the spool of the other version. */
function withSpool(name: string, to: "old" | "next", manner: Manner): Round {
  return {
    name,
    async carryOut(fleet, versions) {
      await fleet.take("audit-service");
      for (let place = 0; place < REPLICAS; place += 1) {
        await untilSpooled(fleet);
        await fleet.replace("gateway", place, versions[to], manner);
      }
      await fleet.give("audit-service", versions[to]);
    },
  };
}

/** Until each gateway has entries on its disk. */
async function untilSpooled(fleet: Fleet): Promise<void> {
  const filled = /^gatehouse_audit_spool_bytes\{[^}]*\} (?!0$)/gm;
  for (const endMs = performance.now() + SPOOL_PATIENCE_MS; ; await sleep(100)) {
    const text = await fleet.metrics();
    if ([...text.matchAll(filled)].length === REPLICAS) return;
    if (performance.now() > endMs) throw new Error("the spools stay empty");
  }
}

/** Begin with the old version everywhere, and end so. */
export const ROUNDS: readonly Round[] = [
  { name: "no change", carryOut: () => sleep(REST_MS) },
  { name: "migrations, with the old code", carryOut: (fleet, { next }) => fleet.migrate(next) },
  exchange("upgrade, in the documented order", "next", inOrder(DOCUMENTED), "SIGTERM"),
  exchange("roll back, in the documented order", "old", inOrder(REVERSE), "SIGTERM"),
  exchange("upgrade, in the reverse order", "next", inOrder(REVERSE), "SIGTERM"),
  exchange("roll back, in the reverse order", "old", inOrder(DOCUMENTED), "SIGTERM"),
  exchange("upgrade, mixed", "next", MIXED, "SIGTERM"),
  exchange("roll back, mixed, kill -9", "old", MIXED, "SIGKILL"),
  exchange("upgrade, documented order, kill -9", "next", inOrder(DOCUMENTED), "SIGKILL"),
  exchange("roll back, documented order, kill -9", "old", inOrder(REVERSE), "SIGKILL"),
  exchange("upgrade, reverse order, kill -9", "next", inOrder(REVERSE), "SIGKILL"),
  withSpool("roll back, spool not empty", "old", "SIGTERM"),
  withSpool("upgrade, spool not empty, kill -9", "next", "SIGKILL"),
  withSpool("roll back, spool not empty, kill -9", "old", "SIGKILL"),
  withSpool("upgrade, spool not empty", "next", "SIGTERM"),
];
