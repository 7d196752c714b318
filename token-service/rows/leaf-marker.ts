import type { Logger } from "#kit/telemetry/logger.ts";
import { boundedCache } from "#kit/values/bounded-cache.ts";
import type { SeenLeaf } from "./session-store.ts";

export interface LeafMarkerOptions {
  write: (leaves: readonly SeenLeaf[]) => Promise<void>;
  logger: Logger;
  flushIntervalMs?: number;
}

const FLUSH_INTERVAL_MS = 50;
const MAX_BATCH = 500;
const MAX_PENDING = 20_000;
const MAX_REMEMBERED = 50_000;

/** Verification never waits for this. Lost marks are made again. */
export class LeafMarker {
  readonly #options: LeafMarkerOptions;
  readonly #pending = new Map<string, SeenLeaf>();
  readonly #written = boundedCache<string, true>(MAX_REMEMBERED);
  #timer: NodeJS.Timeout | undefined;
  #flushing: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(options: LeafMarkerOptions) {
    this.#options = options;
  }

  saw(leaf: SeenLeaf): void {
    if (this.#isClosed) return;
    const key = `${leaf.sessionId} ${leaf.generation}`;
    if (this.#written.has(key) || this.#pending.has(key)) return;
    // Reached only without the database, when no token is verified after 3 s.
    if (this.#pending.size >= MAX_PENDING) return;
    this.#pending.set(key, leaf);
    this.#timer ??= setTimeout(() => void this.flush(), this.#options.flushIntervalMs ?? FLUSH_INTERVAL_MS);
  }

  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#flushing = this.#flushing.then(() => this.#writeAll());
    return this.#flushing;
  }

  /** Writes what it has seen, and does not try again. */
  close(): Promise<void> {
    this.#isClosed = true;
    return this.flush();
  }

  async #writeAll(): Promise<void> {
    while (this.#pending.size > 0) {
      const batch = [...this.#pending].slice(0, MAX_BATCH);
      try {
        await this.#options.write(batch.map(([, leaf]) => leaf));
      } catch (error) {
        this.#options.logger.warn(
          { err: error, leaves: this.#pending.size },
          "leaves could not be marked; retrying",
        );
        if (!this.#isClosed) this.#timer ??= setTimeout(() => void this.flush(), 1_000).unref();
        return;
      }
      for (const [key] of batch) {
        this.#pending.delete(key);
        this.#written.set(key, true);
      }
    }
  }
}
