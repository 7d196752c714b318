import type { Logger } from "./logger.ts";
import { withinDeadline } from "./within-deadline.ts";

/** Something that was started and must be stopped. */
export interface Stoppable {
  name: string;
  stop(): Promise<void> | void;
}

export interface LifecycleOptions {
  logger: Logger;
  /** How long to go on serving, unready, before the stop begins. */
  drainDelayMs: number;
  /** Longest time for all stops together; then the process exits 1. */
  shutdownTimeoutMs: number;
}

const CHECK_TIMEOUT_MS = 2_000;

/**
 * The life of a process: starting, ready, draining, stopped. SIGTERM and SIGINT drain and exit 0; an error
 * that nobody caught is logged and exits 1, because the state behind it can no longer be trusted.
 */
export class Lifecycle {
  readonly #options: LifecycleOptions;
  readonly #started: Stoppable[] = [];
  readonly #checks = new Map<string, () => Promise<void> | void>();
  #state: "starting" | "ready" | "draining" = "starting";
  /** By `performance.now()`. Undefined before the stop begins. */
  #endOfStopMs: number | undefined;

  constructor(options: LifecycleOptions) {
    this.#options = options;
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      process.on(signal, () => void this.#stop(signal));
    }
    // Started by a parent with an IPC channel (npm start): without the parent there is nobody to serve.
    if (process.connected) process.on("disconnect", () => void this.#stop("parent gone"));
    process.on("uncaughtException", (error) => this.#crash(error));
    process.on("unhandledRejection", (error) => this.#crash(error));
  }

  /** Registers what was started; it is stopped in reverse order. */
  onStop(name: string, stop: Stoppable["stop"]): void {
    this.#started.push({ name, stop });
  }

  /** Registers a dependency: `check` throws while it is unusable. */
  addReadinessCheck(name: string, check: () => Promise<void> | void): void {
    this.#checks.set(name, check);
  }

  ready(): void {
    if (this.#state === "starting") this.#state = "ready";
    this.#options.logger.info("ready");
  }

  /** It goes on serving for the drain delay, and stops then. */
  get isDraining(): boolean {
    return this.#state === "draining";
  }

  /** Time left for the remaining stops together. */
  get remainingStopMs(): number {
    const endMs = this.#endOfStopMs ?? performance.now() + this.#options.shutdownTimeoutMs;
    return Math.max(0, endMs - performance.now());
  }

  /** The reasons why this process should get no traffic; none when it is ready. */
  async unreadyReasons(): Promise<string[]> {
    if (this.#state !== "ready") return [this.#state];
    return [...(await this.readiness())].flatMap(([name, isReady]) => (isReady ? [] : [name]));
  }

  /** Each part by its name: `process` (it has started, and is not stopping) and the dependencies. */
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
    this.#options.logger.fatal({ err: error }, "uncaught error");
    process.exit(1);
  }
}
