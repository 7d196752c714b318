import { AuditQueryServiceService } from "../proto/gen/gatehouse/audit/v1/audit_query_service.ts";
import { AuditServiceService } from "../proto/gen/gatehouse/audit/v1/audit_service.ts";
import { loadConfig } from "../service-kit/config.ts";
import { connectPostgres } from "../service-kit/postgres.ts";
import { serveRpc, startProcess } from "../service-kit/service-process.ts";
import { watchDatabase } from "../service-kit/watch-database.ts";
import { withinDeadline } from "../service-kit/within-deadline.ts";
import { AUDIT_QUERY_CALLERS, createAuditQueryRpc } from "./audit-query-rpc.ts";
import { AUDIT_CALLERS, createAuditRpc } from "./audit-rpc.ts";
import { configSchema } from "./config.ts";
import { countCommits } from "./count-commits.ts";
import { assertReadable, insertEntries, selectEntries, selectEntriesById } from "./entry-store.ts";
import { createEntryRecorder } from "./record-entries.ts";
import { searchEntries } from "./search-entries.ts";

/** 200 entries with the longest values fit. */
const MAX_RECEIVE_BYTES = 1024 * 1024;
const READINESS_TIMEOUT_MS = 1_000;
const DATABASE_CLOSE_TIMEOUT_S = 1;

const config = loadConfig(configSchema, process.env);
const service = await startProcess("audit-service", config);
const { lifecycle, logger, metrics } = service;

const sql = connectPostgres(config, "audit-service", logger);
lifecycle.onStop("database", () => sql.end({ timeout: DATABASE_CLOSE_TIMEOUT_S }));
lifecycle.addReadinessCheck("database", () => withinDeadline(assertReadable(sql), READINESS_TIMEOUT_MS));

watchDatabase({ sql, poolSize: config.DATABASE_POOL_SIZE, metrics, lifecycle, logger });

const recorder = createEntryRecorder({
  insertEntries: (entries) => insertEntries(sql, entries),
  selectEntriesById: (ids) => selectEntriesById(sql, ids),
  logger,
  onCommit: countCommits(metrics),
});
metrics.gauge("gatehouse_audit_waiting_entries", "Entries received and not yet being stored.", [], (gauge) =>
  gauge.set(recorder.waitingEntries),
);

await serveRpc(
  service,
  config,
  (server) => {
    server.add(AuditServiceService, AUDIT_CALLERS, createAuditRpc({ recorder, now: () => new Date() }));
    server.add(
      AuditQueryServiceService,
      AUDIT_QUERY_CALLERS,
      createAuditQueryRpc({
        searchEntries: (search) =>
          searchEntries({ selectEntries: (filter, limit) => selectEntries(sql, filter, limit) }, search),
      }),
    );
  },
  MAX_RECEIVE_BYTES,
);
lifecycle.ready();
