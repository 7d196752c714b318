import type { Logger } from "#kit/telemetry/logger.ts";
import type { WholeEntry } from "../stream/audit-log-client.ts";
import type { EventSource, Places } from "../stream/event-source.ts";

/** What `readLog` may be asked for at most. */
const MAX_READ = 500;

export interface EntryReaderDeps {
  /** At most `limit` entries of a log after a place, of whatever kind. @throws {DomainError} */
  readLog(log: number, after: number, limit: number): Promise<{ entries: WholeEntry[]; next: number }>;
  /** Knows which logs there are, and their ends. */
  events: Pick<EventSource, "tip">;
  logger: Logger;
}

export interface ReadEntries {
  entries: WholeEntry[];
  next: Places;
}

/** Every entry of all logs, from some places on. */
export class EntryReader {
  readonly #deps: EntryReaderDeps;

  constructor(deps: EntryReaderDeps) {
    this.#deps = deps;
  }

  get tip(): Places {
    return this.#deps.events.tip;
  }

  /** How many entries there are after the places. */
  countAfter(places: Places): number {
    return Object.entries(this.tip)
      .map(([log, to]) => Math.max(to - (places[Number(log)] ?? 0), 0))
      .reduce((sum, count) => sum + count, 0);
  }

  /**
   * At most `limit` entries, each log in its order. Reads only logs that have something new, or are shorter than the place.
   * @throws {DomainError} `validation_failed` for a place beyond a log: it was restored to an earlier state.
   */
  async after(places: Places, limit: number): Promise<ReadEntries> {
    const entries: WholeEntry[] = [];
    const next: Record<number, number> = { ...places };
    for (const [key, to] of Object.entries(this.tip)) {
      const log = Number(key);
      let place = next[log] ?? 0;
      let removed = 0;
      for (let isFirst = true; place < to || (isFirst && place > to); isFirst = false) {
        const room = Math.min(limit - entries.length, MAX_READ);
        if (room === 0) return { entries, next };
        const read = await this.#deps.readLog(log, place, room);
        removed += read.next - place - read.entries.length;
        if (read.entries.length > 0) {
          if (removed > 0) this.tellRemoved(log, places[log] ?? 0, removed);
          removed = 0;
        }
        entries.push(...read.entries);
        place = read.next;
        next[log] = place;
      }
    }
    return { entries, next };
  }

  /** When the log got the first entry after a place; undefined if retention has removed it, or there is none. */
  async receivedAfter(log: number, place: number): Promise<Date | undefined> {
    const { entries } = await this.#deps.readLog(log, place, 1);
    const [first] = entries;
    return first?.sequence === place + 1 ? new Date(first.receivedAt) : undefined;
  }

  /** What was removed before a collector was new is not missing. */
  tellRemoved(log: number, after: number, count: number): void {
    const text = "retention had removed entries before the SIEM had them";
    this.#deps.logger[after === 0 ? "info" : "error"]({ log, after, count }, text);
  }
}
