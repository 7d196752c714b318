import { Redis, type RedisOptions } from "ioredis";
import { hostText, type RedisHost } from "../config/redis-url.ts";
import { backOffMs } from "../values/back-off.ts";

/** What a sentinel has said counts for this time after it was asked. Shorter than an election takes. */
const ANSWER_COUNTS_MS = 3_000;
const ASK_EVERY_MS = 500;
const SENTINEL_TIMEOUT_MS = 1_000;
const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 1_000;

export interface PrimaryWatchOptions {
  sentinels: readonly RedisHost[];
  primaryName: string;
  /** TLS, password, … of the connections to sentinels. */
  connection: Pick<RedisOptions, "password" | "tls" | "connectionName">;
}

interface Said {
  primary: RedisHost;
  /** When it was asked, by `performance.now()`. */
  atMs: number;
}

/**
 * Asks all sentinels twice a second who the primary is. It is the one that most of them name, and have named in the last three
 * seconds. Any two majorities have a sentinel in common, and no sentinel goes back to a former primary by itself. So three
 * seconds after any replica has begun to use a new primary, none uses the old one any more, however the network is cut.
 */
export class PrimaryWatch {
  readonly #name: string;
  readonly #sentinels: readonly Redis[];
  readonly #said = new Map<Redis, Said>();
  readonly #asked = new Set<Redis>();
  readonly #listeners = new Set<() => void>();
  readonly #timer: NodeJS.Timeout;
  /** What a sentinel said last instead of an answer. */
  #problem: string | undefined;
  #primary: RedisHost | undefined;
  #sinceMs: number | undefined;

  constructor({ sentinels, primaryName, connection }: PrimaryWatchOptions) {
    this.#name = primaryName;
    this.#sentinels = sentinels.map((sentinel) => this.#open(sentinel, connection));
    this.#timer = setInterval(() => this.#tick(), ASK_EVERY_MS);
    this.#timer.unref();
  }

  /** Undefined while most of the sentinels name none together. */
  get primary(): RedisHost | undefined {
    this.#note();
    return this.#primary;
  }

  /** Milliseconds of `performance.now()` since when `primary` is what it is. */
  get sinceMs(): number | undefined {
    return this.primary === undefined ? undefined : this.#sinceMs;
  }

  /** Why there is no primary. */
  get problem(): Error {
    const reason = this.#problem === undefined ? "" : ` (${this.#problem})`;
    return new Error(`most of the sentinels do not name ${this.#name} together${reason}`);
  }

  /** Called when `primary` has changed. @returns a function that ends it. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  close(): void {
    clearInterval(this.#timer);
    this.#listeners.clear();
    for (const sentinel of this.#sentinels) sentinel.disconnect();
  }

  #open({ host, port }: RedisHost, connection: PrimaryWatchOptions["connection"]): Redis {
    const sentinel = new Redis({
      ...connection,
      host,
      port,
      lazyConnect: true,
      connectTimeout: SENTINEL_TIMEOUT_MS,
      commandTimeout: SENTINEL_TIMEOUT_MS,
      socketTimeout: SENTINEL_TIMEOUT_MS,
      retryStrategy: (attempt) => backOffMs({ attempt, firstMs: FIRST_PAUSE_MS, maxMs: MAX_PAUSE_MS }),
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
      enableReadyCheck: false,
      disableClientInfo: true,
    });
    sentinel.on("error", (error) => this.#noteProblem(sentinel, error));
    sentinel.on("ready", () => void this.#ask(sentinel));
    sentinel.connect().catch(() => undefined); // The event handlers report it.
    return sentinel;
  }

  #tick(): void {
    this.#note();
    for (const sentinel of this.#sentinels) void this.#ask(sentinel);
  }

  async #ask(sentinel: Redis): Promise<void> {
    if (sentinel.status !== "ready" || this.#asked.has(sentinel)) return;
    this.#asked.add(sentinel);
    const atMs = performance.now();
    try {
      const primary = hostOf(await sentinel.call("SENTINEL", "get-master-addr-by-name", this.#name));
      if (primary === undefined) this.#said.delete(sentinel);
      else this.#said.set(sentinel, { primary, atMs });
    } catch (error) {
      this.#noteProblem(sentinel, error);
    }
    this.#asked.delete(sentinel);
    this.#note();
  }

  #noteProblem({ options: { host = "", port = 0 } }: Redis, error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error);
    this.#problem = `sentinel ${hostText({ host, port })}: ${reason}`;
  }

  /** Answers also become too old without any event, so whoever asks for the primary looks first. */
  #note(): void {
    const primary = this.#named();
    if (textOf(primary) === textOf(this.#primary)) return;
    this.#primary = primary;
    this.#sinceMs = performance.now();
    for (const listener of [...this.#listeners]) listener();
  }

  #named(): RedisHost | undefined {
    const sinceMs = performance.now() - ANSWER_COUNTS_MS;
    const valid = [...this.#said.values()].filter(({ atMs }) => atMs > sinceMs);
    const byName = Map.groupBy(valid, ({ primary }) => hostText(primary));
    return [...byName.values()].find((same) => same.length > this.#sentinels.length / 2)?.[0]?.primary;
  }
}

const textOf = (primary: RedisHost | undefined) => primary && hostText(primary);

/** A sentinel that does not know the name answers nothing. */
function hostOf(answer: unknown): RedisHost | undefined {
  if (!Array.isArray(answer)) return undefined;
  const [host, port] = answer as unknown[];
  return typeof host === "string" && Number(port) > 0 ? { host, port: Number(port) } : undefined;
}
