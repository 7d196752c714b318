import { randomUUID } from "node:crypto";
import { newProducerId } from "#audit-client/stream/producer-id.ts";
import { createReadingRecorder } from "#audit-client/stream/record-reading.ts";
import { loadConfig } from "#kit/config/config.ts";
import { startProcess } from "#kit/process/service-process.ts";
import { watchDatabases } from "#kit/process/watch-database.ts";
import { withinDeadline } from "#kit/values/call-deadline.ts";
import { AuditQueryServiceService } from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { AuditServiceService } from "#proto/gatehouse/audit/v1/audit_service.ts";
import { configSchema } from "./config.ts";
import { assertReadable } from "./entries/entry-store.ts";
import { AUDIT_CALLERS, createAuditRpc } from "./intake/audit-rpc.ts";
import { countCommits } from "./intake/record-entries.ts";
import { createOwnEventRecorder } from "./intake/record-own-events.ts";
import type { TreeHead } from "./log/checkpoint.ts";
import { countLogs, measureLogs } from "./log/count-log.ts";
import { createCheckpointNoting, findNotedCheckpoints } from "./log/noted-checkpoints.ts";
import type { Logs } from "./logs/logs.ts";
import { type AuditLog, INTAKE_POOL_SIZE, openLog } from "./open-log.ts";
import { AUDIT_QUERY_CALLERS, createAuditQueryRpc } from "./query/audit-query-rpc.ts";
import { createFollowing } from "./query/follow-entries.ts";
import { getEntry } from "./query/get-entry.ts";
import { searchEntries } from "./query/search-entries.ts";
import { summarizeLogs } from "./query/summarize-log.ts";

/** Fits 200 entries with the longest values. */
const MAX_RECEIVE_BYTES = 1024 * 1024;
const READINESS_TIMEOUT_MS = 1_000;
const NOTE_INTERVAL_MS = 10_000;
const NOTE_TIMEOUT_MS = 5_000;

const config = loadConfig(configSchema, process.env);
const service = await startProcess("audit-service", config);
const { lifecycle, logger, metrics } = service;
const now = () => new Date();

const others = (config.LOGS_FILE ?? []).toSorted((a, b) => a.number - b.number);
const shared = {
  service,
  config,
  numbers: [0, ...others.map(({ number }) => number)],
  counts: countLogs(metrics),
  replica: randomUUID().slice(0, 8),
  async findNoted(origin: string): Promise<TreeHead | undefined> {
    return (await findNotedCheckpoints(logs[0].sql, origin))[0];
  },
  countCommits: countCommits(metrics),
  now,
};
const logs: Logs<AuditLog> = [
  openLog({ number: 0, url: config.DATABASE_URL }, shared),
  ...others.map((log) => openLog(log, shared)),
];
const [first, ...further] = logs;
measureLogs(metrics, logs, now);
metrics.gauge(
  "gatehouse_audit_waiting_entries",
  "Entries received and waiting to be stored.",
  ["log"],
  (gauge) => {
    for (const { number, recorder } of logs) gauge.set({ log: String(number) }, recorder.waitingEntries);
  },
);
lifecycle.addReadinessCheck("database", () =>
  withinDeadline(assertReadable(first.intake), READINESS_TIMEOUT_MS),
);
watchDatabases({
  databases: [{ sql: first.intake }, ...further.map(({ intake, number }) => ({ sql: intake, part: number }))],
  poolSize: INTAKE_POOL_SIZE,
  metrics,
  lifecycle,
  logger,
});

const ownEvents = createOwnEventRecorder({ recorder: first.recorder, producerId: newProducerId(0), now });
const recordReading = createReadingRecorder(ownEvents, now);

await service.serveRpc(config, {
  databases: [first.intake, first.sql],
  maxReceiveBytes: MAX_RECEIVE_BYTES,
  register: (server) => {
    server.add(AuditServiceService, AUDIT_CALLERS, createAuditRpc({ logs, recordReading, now }), ["record"]);
    server.add(
      AuditQueryServiceService,
      AUDIT_QUERY_CALLERS,
      createAuditQueryRpc({
        searchEntries: (search) => searchEntries({ logs, cursorKey: first.cursorKey }, search),
        followEntries: createFollowing(logs),
        summarizeLogs: (span) => summarizeLogs(logs, span),
        getEntry: (wanted) => getEntry(logs, wanted),
        logs,
        recordReading,
        monotonicMs: () => performance.now(),
      }),
    );
  },
});
// After `serveRpc`, which makes sure that each connection of the first database has a session of its own.
first.start();
const notedSize = metrics.gauge(
  "gatehouse_audit_noted_size",
  "Entries of a log that log 0 commits to, as far as this replica noted them.",
  ["log"],
);
for (const log of further) {
  void log.startWhenThere();
  const note = createCheckpointNoting({
    origin: log.origin,
    head: () => log.sequencer.head,
    record: (event) => ownEvents.recordEvent(event, Date.now() + NOTE_TIMEOUT_MS),
    onNoted: (size) => notedSize.set({ log: String(log.number) }, size),
    now,
  });
  service.every(NOTE_INTERVAL_MS, `noting of checkpoints ${log.number}`, note);
}
lifecycle.ready();
