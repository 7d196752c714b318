import { newCallContext } from "../../service-kit/call-context.ts";
import type { Metrics } from "../../service-kit/metrics.ts";
import { type Repetition, repeat } from "../../service-kit/repeat.ts";
import { type EndSessionsDeps, endSessions } from "./end-sessions.ts";
import { claimSessionEnds, countSessionEnds } from "./session-end-store.ts";

const POLL_INTERVAL_MS = 1_000;
const LEASE_MS = 5_000;
const MAX_BATCH = 20;

/** Ends the sessions that a crash, or an absent token-service, has left alive after their cause. Any number of replicas may. */
export class SessionEndWorker {
  readonly #deps: EndSessionsDeps;
  #waiting = 0;
  #polling: Repetition | undefined;

  constructor(deps: EndSessionsDeps, metrics: Metrics) {
    this.#deps = deps;
    metrics.gauge(
      "gatehouse_session_ends_waiting",
      "Ends of sessions that token-service has not confirmed, counted to 10,000.",
      [],
      (gauge) => gauge.set(this.#waiting),
    );
  }

  start(): void {
    this.#polling = repeat("session ends", POLL_INTERVAL_MS, () => this.poll(), this.#deps.logger);
  }

  async stop(): Promise<void> {
    await this.#polling?.stop();
  }

  /** Ends what is due. What fails is tried again when its lease ends. */
  async poll(): Promise<void> {
    const { sql, now, logger } = this.#deps;
    const nowMs = now().getTime();
    const due = await claimSessionEnds(sql, {
      now: new Date(nowMs),
      leaseEnd: new Date(nowMs + LEASE_MS),
      limit: MAX_BATCH,
    });
    await Promise.all(
      due.map((end) =>
        endSessions(this.#deps, { ...end, isLate: true }, newCallContext()).then(
          () => logger.info({ userId: end.userId, reason: end.reason }, "sessions ended late"),
          (error: unknown) =>
            logger.warn({ err: error, userId: end.userId }, "sessions not ended yet; trying again"),
        ),
      ),
    );
    this.#waiting = await countSessionEnds(sql);
  }
}
