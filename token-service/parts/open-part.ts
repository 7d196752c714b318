import { type Sql, transaction } from "#kit/database/postgres.ts";
import type { ServiceProcess } from "#kit/process/service-process.ts";
import type { DatabaseWatch } from "#kit/process/watch-database.ts";
import { slotOfSession } from "#token-client/session-slot.ts";
import {
  createSecurityEventDelivery,
  type SecurityEventDeliveryDeps,
} from "../events/deliver-security-events.ts";
import { RevocationFeed, type RevocationFeedOptions } from "../revocations/revocation-feed.ts";
import { readRevocations } from "../revocations/revocation-store.ts";
import { LeafMarker } from "../rows/leaf-marker.ts";
import { markLeavesSeen, type SeenLeaf } from "../rows/session-store.ts";
import type { Part } from "./parts.ts";

/** What a part of the users has of its own. Clients have that of part 0. */
export interface SessionPart extends Part {
  sql: Sql;
  /** Called after the commit. */
  onSecurityEvent: () => void;
  assertClock: () => void;
}

interface PartDatabase {
  number: number;
  sql: Sql;
  watch: DatabaseWatch;
}

export interface OpenPartOptions
  extends Omit<RevocationFeedOptions, "read">,
    Omit<SecurityEventDeliveryDeps, "sql"> {
  service: Pick<ServiceProcess, "run">;
  /** A leaf of a slot that the part no longer has. */
  sawElsewhere: (leaf: SeenLeaf) => void;
}

/** It reads nothing before `revocations.start`. */
export function openPart({ number, sql, watch }: PartDatabase, options: OpenPartOptions) {
  const { service, logger, now, accessTtlS, sawElsewhere } = options;
  const revocations = new RevocationFeed({
    ...options,
    read: (known) => transaction(sql, (tx) => readRevocations(tx, known, { part: number, accessTtlS })),
  });
  service.run("revocation feed", { stop: () => revocations.stop() });
  const outbox = service.run("security events", createSecurityEventDelivery({ ...options, sql }));
  async function write(batch: readonly SeenLeaf[]): Promise<void> {
    const isOwn = ({ sessionId }: SeenLeaf) => revocations.holds(slotOfSession(sessionId));
    for (const leaf of batch) if (!isOwn(leaf)) sawElsewhere(leaf);
    await markLeavesSeen(sql, batch.filter(isOwn), now());
  }
  const leaves = service.run("leaf marks", new LeafMarker({ write, logger }));
  const onSecurityEvent = () => outbox.wake();
  return { number, sql, watch, revocations, outbox, leaves, onSecurityEvent, assertClock: watch.assertClock };
}
