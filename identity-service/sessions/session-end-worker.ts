import { OutboxWorker } from "#kit/database/outbox.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import type { EndSessionsDeps } from "./end-sessions.ts";
import {
  claimSessionEnds,
  countSessionEnds,
  deleteSessionEnd,
  type SessionEnd,
} from "./session-end-store.ts";

/** For session ends left by a crash or an absent token-service. */
export function createSessionEndWorker(deps: EndSessionsDeps, metrics: Metrics): OutboxWorker<SessionEnd> {
  const { sql, tokenService, now, logger } = deps;
  const worker = new OutboxWorker({
    what: "session ends",
    pollIntervalMs: 1_000,
    leaseMs: 5_000,
    maxBatch: 20,
    claim: (lease) => claimSessionEnds(sql, { ...lease, now: now() }),
    async deliver({ userId, exceptSessionId, reason, createdAt }) {
      // Sessions begun since the cause have valid credentials and stay.
      const which = { userId, exceptSessionId, reason, begunBefore: createdAt };
      await tokenService.revokeUserSessions(which, newCallContext());
      logger.info({ userId, reason }, "sessions ended late");
    },
    mark: ({ id }) => deleteSessionEnd(sql, id),
    backlog: async () => ({ count: await countSessionEnds(sql) }),
    now,
    logger,
  });
  metrics.gauge(
    "gatehouse_session_ends_waiting",
    "Session ends that token-service has not confirmed, counted up to 10,000.",
    [],
    (gauge) => gauge.set(worker.backlogCount),
  );
  return worker;
}
