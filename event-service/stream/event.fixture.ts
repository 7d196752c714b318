import { randomUUID } from "node:crypto";
import { DomainError } from "#kit/values/errors.ts";
import { uuidv7 } from "#kit/values/uuid-v7.ts";
import type { StreamEntry } from "./event.ts";
import type { Followed, Places } from "./event-source.ts";

export function streamEntry(entry: Partial<StreamEntry> = {}): StreamEntry {
  const at = new Date();
  return {
    ...{
      id: uuidv7(),
      kind: "event",
      log: 0,
      sequence: 1,
      occurredAt: at,
      receivedAt: at,
      producer: "identity-service",
    },
    ...{
      actor: { userId: "", role: "", sessionId: "" },
      action: "user.password_changed",
      resource: randomUUID(),
    },
    ...{ outcome: "success", errorCode: "", reason: "", method: "", route: "", httpStatus: 0, latencyUs: 0 },
    ...{ callId: "", requestId: uuidv7(), traceId: "" },
    ...entry,
  };
}

const MAX_READ = 500;
const MAX_RETURNED = 100;

/** Audit logs in memory that answer as FollowEntries does. The flow of webhooks has the real ones. */
export class LogsInMemory {
  readonly #logs = new Map<number, StreamEntry[]>([[0, []]]);
  reads = 0;
  /** Logs that do not answer. */
  readonly away = new Set<number>();

  add(...entries: Partial<StreamEntry>[]): StreamEntry[] {
    return entries.map((given) => {
      const log = given.log ?? 0;
      const entries = this.#logs.get(log) ?? [];
      this.#logs.set(log, entries);
      const entry = streamEntry({ ...given, log, sequence: entries.length + 1 });
      entries.push(entry);
      return entry;
    });
  }

  /** As a restored database. */
  cut(log: number, size: number): void {
    this.#logs.get(log)?.splice(size);
  }

  readonly follow = async (after: Places, limit = MAX_RETURNED): Promise<Followed> => {
    this.reads += 1;
    const entries: StreamEntry[] = [];
    const next: Record<number, number> = {};
    let hasMore = false;
    for (const [log, all] of this.#logs) {
      if (this.away.has(log)) {
        if (this.away.size === this.#logs.size) throw new DomainError("service_unavailable");
        if (after[log] !== undefined) next[log] = after[log];
        continue;
      }
      const place = after[log] ?? all.length;
      if (place > all.length) throw new DomainError("validation_failed");
      const read = all.slice(place, place + MAX_READ);
      entries.push(...read.slice(0, limit));
      next[log] = place + Math.min(read.length, limit);
      hasMore ||= next[log] < all.length;
    }
    return { entries, next, hasMore, away: [...this.away] };
  };
}
