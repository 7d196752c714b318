import type { Logger } from "#kit/telemetry/logger.ts";
import { DomainError } from "#kit/values/errors.ts";
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
   * At most `limit` entries, each log in its order. The logs share the room, and what one does not need is left to those that are further
   * behind. Reads only logs that have something new, or are shorter than the place. A log that is away keeps back its own entries alone:
   * that it has some is no failure while there are others.
   * @throws {DomainError} `validation_failed` for a place beyond a log: it was restored to an earlier state. `service_unavailable` if
   * all are away.
   */
  async after(places: Places, limit: number): Promise<ReadEntries> {
    const entries: WholeEntry[] = [];
    const next: Record<number, number> = { ...places };
    const behind = (log: number) => (this.tip[log] ?? 0) - (places[log] ?? 0);
    const logs = Object.keys(this.tip)
      .map(Number)
      .sort((one, other) => behind(one) - behind(other));
    let away = 0;
    for (const [index, log] of logs.entries()) {
      const until = entries.length + Math.ceil((limit - entries.length) / (logs.length - index));
      try {
        for await (const read of this.#readOn(log, next[log] ?? 0, () => until - entries.length)) {
          entries.push(...read.entries);
          next[log] = read.next;
        }
      } catch (error) {
        if (!(error instanceof DomainError) || error.code !== "service_unavailable") throw error;
        away += 1;
        if (away === logs.length) throw error;
      }
    }
    return { entries, next };
  }

  /** Of one log, up to its end or until there is no room. */
  async *#readOn(log: number, from: number, room: () => number) {
    const to = this.tip[log] ?? 0;
    let place = from;
    let removed = 0;
    for (let isFirst = true; room() > 0 && (place < to || (isFirst && place > to)); isFirst = false) {
      const read = await this.#deps.readLog(log, place, Math.min(room(), MAX_READ));
      removed += read.next - place - read.entries.length;
      if (read.entries.length > 0) {
        if (removed > 0) this.tellRemoved(log, from, removed);
        removed = 0;
      }
      yield read;
      // The log was restored to an earlier state, and its end is not known yet.
      if (read.next === place) return;
      place = read.next;
    }
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
