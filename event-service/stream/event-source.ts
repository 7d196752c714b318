import type { Logger } from "#kit/telemetry/logger.ts";
import { DomainError } from "#kit/values/errors.ts";
import { type StreamEntry, type StreamEvent, toEvent } from "./event.ts";

/** By the number of a log: the sequence of the last entry before it. */
export type Places = Readonly<Record<number, number>>;

export interface Followed {
  entries: StreamEntry[];
  /** Where the next call goes on, in the logs that were asked for. */
  next: Places;
  hasMore: boolean;
  /** Logs that cannot be read now. */
  away: readonly number[];
}

export interface EventSourceDeps {
  /** Entries after the places. A log that is missing is followed from now on. */
  follow(after: Places): Promise<Followed>;
  /** Origin of the events. */
  source: string;
  logger: Logger;
}

/** Events after some places. */
export interface Read {
  events: StreamEvent[];
  next: Places;
  isAtEnd: boolean;
}

/** The newest events of a log, in memory. */
interface Tail {
  /** It has every event after this sequence, up to `to`. */
  from: number;
  to: number;
  events: StreamEvent[];
}

const MAX_TAIL = 10_000;
const MAX_READ = 200;

/** The events of all logs. All who are at the end share one read of it. */
export class EventSource {
  readonly #deps: EventSourceDeps;
  readonly #tails = new Map<number, Tail>();
  /** There is a log whose end has not been read yet. */
  #isIncomplete = true;
  #grown = Promise.withResolvers<void>();

  constructor(deps: EventSourceDeps) {
    this.#deps = deps;
  }

  /** The end of each log, as far as it is known. */
  get tip(): Places {
    return Object.fromEntries([...this.#tails].map(([log, { to }]) => [log, to]));
  }

  /** Else the tip is no place to begin at: of a log that it does not name everything would be read. */
  get isKnown(): boolean {
    return !this.#isIncomplete;
  }

  /** Resolves when there may be more. */
  get grown(): Promise<void> {
    return this.#grown.promise;
  }

  /** To be repeated. @throws {DomainError} `service_unavailable`, also if one log is away: of the others it has read all. */
  async read(): Promise<void> {
    for (let hasMore = true; hasMore; ) {
      const followed = await this.#follow();
      hasMore = followed.hasMore;
      this.#append(followed);
      this.#isIncomplete = followed.away.some((log) => !this.#tails.has(log));
      if (!hasMore && followed.away.length > 0)
        throw new DomainError("service_unavailable", `Audit logs are away: ${followed.away.join()}`);
    }
  }

  async #follow(): Promise<Followed> {
    try {
      return await this.#deps.follow(this.tip);
    } catch (error) {
      // The log was restored to an earlier state, and its numbers are given again.
      if (!(error instanceof DomainError) || error.code !== "validation_failed") throw error;
      this.#deps.logger.error(
        { err: error, tip: this.tip },
        "the log is shorter than it was; it is followed from its end",
      );
      this.#tails.clear();
      this.#isIncomplete = true;
      return this.#deps.follow({});
    }
  }

  /** At most 200 events of each log. A log that the places do not name is read from its beginning: it is new. */
  async after(places: Places): Promise<Read> {
    const events: StreamEvent[] = [];
    const next: Record<number, number> = { ...places };
    let isAtEnd = true;
    for (const [log, tail] of this.#tails) {
      const place = places[log] ?? 0;
      const read = place >= tail.from ? fromTail(tail, place) : await this.#fromLog(log, place);
      if (read === undefined) continue;
      events.push(...read.events);
      next[log] = read.place;
      if (read.place < tail.to) isAtEnd = false;
    }
    return { events, next, isAtEnd };
  }

  /** @returns undefined while the log is away. */
  async #fromLog(log: number, place: number) {
    const { entries, next, away } = await this.#deps.follow({ [log]: place });
    if (away.includes(log)) return undefined;
    const ofLog = entries.filter((entry) => entry.log === log);
    return { events: this.#toEvents(ofLog), place: next[log] ?? place };
  }

  #append({ entries, next }: Followed): void {
    const byLog = Map.groupBy(entries, ({ log }) => log);
    let isGrown = false;
    for (const [key, to] of Object.entries(next)) {
      const log = Number(key);
      const events = this.#toEvents(byLog.get(log) ?? []);
      const tail = this.#tails.get(log) ?? { from: to, to, events: [] };
      this.#tails.set(log, tail);
      tail.events.push(...events);
      tail.to = Math.max(tail.to, to);
      isGrown ||= events.length > 0;
      const surplus = tail.events.length - MAX_TAIL;
      if (surplus > 0) tail.from = tail.events.splice(0, surplus).at(-1)?.sequence ?? tail.from;
    }
    if (!isGrown) return;
    this.#grown.resolve();
    this.#grown = Promise.withResolvers();
  }

  #toEvents(entries: readonly StreamEntry[]): StreamEvent[] {
    return entries.flatMap((entry) => toEvent(entry, this.#deps.source) ?? []);
  }
}

function fromTail({ events, to }: Tail, place: number): { events: StreamEvent[]; place: number } {
  // Mostly near the end.
  let first = events.length;
  while (first > 0 && (events[first - 1] as StreamEvent).sequence > place) first -= 1;
  const found = events.slice(first, first + MAX_READ);
  const isCut = first + MAX_READ < events.length;
  return { events: found, place: isCut ? (found.at(-1)?.sequence ?? to) : Math.max(to, place) };
}
