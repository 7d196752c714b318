import { ConfigError, EXIT_CONFIG } from "../config/config.ts";
import { isLostTypeQuery } from "../database/database-failure.ts";
import type { Logger } from "../telemetry/logger.ts";
import { withinDeadline } from "../values/call-deadline.ts";

export interface Stoppable {
  name: string;
  stop(): Promise<void> | void;
}

export interface LifecycleOptions {
  logger: Logger;
  drainDelayMs: number;
  /** For all stops together. Afterwards the process exits 1. */
  shutdownTimeoutMs: number;
}

const CHECK_TIMEOUT_MS = 2_000;

/** Signals exit 0, an uncaught error 1, because the state is unreliable; a {@link ConfigError} 78. */
export class Lifecycle {
  readonly #options: LifecycleOptions;
  readonly #started: Stoppable[] = [];
  readonly #checks = new Map<string, () => Promise<void> | void>();
  #state: "starting" | "ready" | "draining" = "starting";
  /** Milliseconds of `performance.now()`. */
  #endOfStopMs: number | undefined;

  constructor(options: LifecycleOptions) {
    this.#options = options;
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      process.on(signal, () => void this.#stop(signal));
    }
    // The parent (npm start) has ended.
    if (process.connected) process.on("disconnect", () => void this.#stop("parent gone"));
    process.on("uncaughtException", (error) => this.#crash(error));
    process.on("unhandledRejection", (error) => {
      if (!isLostTypeQuery(error)) this.#crash(error);
    });
  }

  /** Stops run in reverse order. */
  onStop(name: string, stop: Stoppable["stop"]): void {
    this.#started.push({ name, stop });
  }

  /** @param check throws while the dependency is unusable. */
  addReadinessCheck(name: string, check: () => Promise<void> | void): void {
    this.#checks.set(name, check);
  }

  ready(): void {
    if (this.#state === "starting") this.#state = "ready";
    this.#options.logger.info("ready");
  }

  get isDraining(): boolean {
    return this.#state === "draining";
  }

  get remainingStopMs(): number {
    const endMs = this.#endOfStopMs ?? performance.now() + this.#options.shutdownTimeoutMs;
    return Math.max(0, endMs - performance.now());
  }

  async unreadyReasons(): Promise<string[]> {
    if (this.#state !== "ready") return [this.#state];
    return [...(await this.readiness())].flatMap(([name, isReady]) => (isReady ? [] : [name]));
  }

  async readiness(): Promise<Map<string, boolean>> {
    const checked = [...this.#checks].map(async ([name, check]) => {
      try {
        await withinDeadline(Promise.resolve(check()), CHECK_TIMEOUT_MS);
        return [name, true] as const;
      } catch (error) {
        this.#options.logger.warn({ err: error, dependency: name }, "not ready");
        return [name, false] as const;
      }
    });
    return new Map([["process", this.#state === "ready"], ...(await Promise.all(checked))]);
  }

  async #stop(reason: string): Promise<void> {
    if (this.#state === "draining") return;
    this.#state = "draining";
    const { logger, drainDelayMs, shutdownTimeoutMs } = this.#options;
    logger.info({ reason }, "stopping");
    await new Promise((resolve) => setTimeout(resolve, drainDelayMs));
    this.#endOfStopMs = performance.now() + shutdownTimeoutMs;
    setTimeout(() => {
      logger.error("did not stop in time");
      process.exit(1);
    }, shutdownTimeoutMs).unref();
    for (const { name, stop } of this.#started.reverse()) {
      try {
        await stop();
      } catch (error) {
        logger.error({ err: error, part: name }, "part did not stop cleanly");
      }
    }
    logger.info("stopped");
    process.exit(0);
  }

  #crash(error: unknown): void {
    const { logger } = this.#options;
    const isOfConfig = error instanceof ConfigError;
    if (isOfConfig) logger.fatal(error.message);
    else logger.fatal({ err: error }, "uncaught error");
    process.exit(isOfConfig ? EXIT_CONFIG : 1);
  }
}

/** Passes forever after its first success: a shared dependency must not make all replicas unready. */
export function oncePassed(check: () => void): () => void {
  let hasPassed = false;
  return () => {
    if (hasPassed) return;
    check();
    hasPassed = true;
  };
}
