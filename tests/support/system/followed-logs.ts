import { pino } from "pino";
import { removeOldPartitions } from "#audit-service/log/remove-old-partitions.ts";
import { monthOf } from "#audit-service/log/retention-store.ts";
import { AUDIT_QUERY_CALLERS, createAuditQueryRpc } from "#audit-service/query/audit-query-rpc.ts";
import { createFollowing } from "#audit-service/query/follow-entries.ts";
import { createAuditLogClient } from "#event-service/stream/audit-log-client.ts";
import { RpcServer } from "#kit/rpc/rpc-server.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { AuditQueryServiceService } from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { ORIGIN, openTestLog, readableLog, signer } from "./audit-sequencer.ts";
import type { TestCertificates } from "./certificates.ts";

const OTHER_LOG = 7;

/** audit-service's reading side with the logs 0 and 7, and event-service's client of it. */
export async function startFollowedLogs(certificates: TestCertificates) {
  const [first, other] = await Promise.all([openTestLog(), openTestLog()]);
  const logs = [readableLog(first.database.sql), readableLog(other.database.sql, OTHER_LOG)] as const;
  const server = new RpcServer({
    address: "127.0.0.1:0",
    certificate: certificates.of("audit-service"),
    logger: pino({ level: "silent" }),
    metrics: createMetrics("audit-service"),
  });
  const deps = {
    logs,
    followEntries: createFollowing(logs),
    recordReading: async () => undefined,
    monotonicMs: () => performance.now(),
  };
  server.add(AuditQueryServiceService, AUDIT_QUERY_CALLERS, createAuditQueryRpc(deps as never));
  const port = await server.listen();
  const client = createAuditLogClient(`127.0.0.1:${port}`, certificates.of("event-service"));
  const written = [
    { log: first, sequencer: first.sequencer() },
    { log: other, sequencer: other.sequencer({ origin: `${ORIGIN}/${OTHER_LOG}` }) },
  ];
  return {
    client,
    /** The last entries are covered by a checkpoint. */
    async add(count: number, log: 0 | 7 = 0) {
      const to = written[log === 0 ? 0 : 1];
      await to?.log.record(count);
      await to?.sequencer.catchUp();
    },
    /** Retention removes old entries of log 0, and some of this month follow them. */
    async addAfterRemoved(removed: number, count: number) {
      const [to] = written;
      await first.recordIn(monthOf(new Date()) - 3, removed);
      await to?.sequencer.catchUp();
      await first.record(count);
      await to?.sequencer.catchUp();
      await removeOldPartitions({
        ...{ sql: first.database.sql, signer, retentionMonths: 1, now: () => new Date() },
        logger: pino({ level: "silent" }),
      });
    },
    verifierKey: logs[0].verifierKey,
    async close() {
      client.close();
      await server.close(200);
      await Promise.all([first.close(), other.close()]);
    },
  };
}

export type FollowedLogs = Awaited<ReturnType<typeof startFollowedLogs>>;
