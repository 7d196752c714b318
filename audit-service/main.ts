import { v4 as uuidv4 } from "uuid";
import { createReadingRecorder } from "#audit-client/stream/record-reading.ts";
import { loadConfig } from "#kit/config/config.ts";
import { connectPostgres } from "#kit/database/postgres.ts";
import { startProcess } from "#kit/process/service-process.ts";
import { watchDatabase } from "#kit/process/watch-database.ts";
import { withinDeadline } from "#kit/values/call-deadline.ts";
import { AuditQueryServiceService } from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { AuditServiceService } from "#proto/gatehouse/audit/v1/audit_service.ts";
import { configSchema } from "./config.ts";
import {
  assertReadable,
  deleteClaimedEmail,
  insertEntries,
  selectEntries,
  selectEntriesById,
} from "./entries/entry-store.ts";
import { storeEntries } from "./entries/store-entries.ts";
import { AUDIT_CALLERS, createAuditRpc, createProducerPresence } from "./intake/audit-rpc.ts";
import { CLOSE_INTERVAL_MS, createIntentCloser } from "./intake/close-intents.ts";
import { deleteOpenIntents, selectAbandonedIntents, upsertProducers } from "./intake/intent-store.ts";
import { countCommits, EntryRecorder } from "./intake/record-entries.ts";
import { createOwnEventRecorder } from "./intake/record-own-events.ts";
import { createCheckpointSigner } from "./log/checkpoint.ts";
import { checkpointFile } from "./log/checkpoint-file.ts";
import { selectCheckpointCovering, selectLastCheckpoint } from "./log/checkpoint-store.ts";
import { countLog } from "./log/count-log.ts";
import { MAINTENANCE_SESSION, runMaintenance, runSequencer } from "./log/maintain-log.ts";
import { SEQUENCER_SESSION, Sequencer } from "./log/sequencer.ts";
import { AUDIT_QUERY_CALLERS, createAuditQueryRpc } from "./query/audit-query-rpc.ts";
import { exportEntries } from "./query/export-entries.ts";
import { followEntries } from "./query/follow-entries.ts";
import { getEntry } from "./query/get-entry.ts";
import { proveConsistency, proveInclusion } from "./query/prove.ts";
import { searchEntries } from "./query/search-entries.ts";
import { COUNT_INTERVAL_MS, countLogins, summarizeLog } from "./query/summarize-log.ts";

/** Fits 200 entries with the longest values. */
const MAX_RECEIVE_BYTES = 1024 * 1024;
const READINESS_TIMEOUT_MS = 1_000;
const ROOM_INTERVAL_MS = 60_000;
const DATABASE_CLOSE_TIMEOUT_S = 1;
/** Inserts use one connection at a time. */
const INTAKE_POOL_SIZE = 3;
/** Rare and common search values need different plans. */
const READ_SESSION = { plan_cache_mode: "force_custom_plan" };

const config = loadConfig(configSchema, process.env);
const service = await startProcess("audit-service", config);
const { lifecycle, logger, metrics } = service;
const now = () => new Date();

/** Separate pools: a slow search blocks no writes. */
const pools = {
  intake: connectPostgres({ ...config, DATABASE_POOL_SIZE: INTAKE_POOL_SIZE }, "audit-service", logger),
  reads: connectPostgres(config, "audit-service reads", logger, { session: READ_SESSION }),
  maintenance: connectPostgres({ ...config, DATABASE_POOL_SIZE: 1 }, "audit-service maintenance", logger, {
    session: MAINTENANCE_SESSION,
  }),
  sequencer: connectPostgres({ ...config, DATABASE_POOL_SIZE: 1 }, "audit-service sequencer", logger, {
    session: SEQUENCER_SESSION,
  }),
};
lifecycle.onStop("database", async () => {
  await Promise.all(Object.values(pools).map((sql) => sql.end({ timeout: DATABASE_CLOSE_TIMEOUT_S })));
});
lifecycle.addReadinessCheck("database", () =>
  withinDeadline(assertReadable(pools.intake), READINESS_TIMEOUT_MS),
);

watchDatabase({
  sql: pools.intake,
  poolSize: INTAKE_POOL_SIZE,
  metrics,
  lifecycle,
  logger,
});

const signer = createCheckpointSigner(config.CHECKPOINT_ORIGIN, config.CHECKPOINT_KEY_FILE.reveal());
/** Independent of LOG_LEVEL: checkpoints are also copied to standard output. */
const checkpointLog = logger.child({}, { level: "info" });
const copies =
  config.CHECKPOINT_FILE === undefined ? undefined : checkpointFile({ path: config.CHECKPOINT_FILE, signer });
const sequencer = new Sequencer({
  sql: pools.sequencer,
  signer,
  file: copies,
  publish: (checkpoint, { size }) => checkpointLog.info({ size, checkpoint }, "checkpoint"),
  onFileFailure: (error) => {
    counts.onFileFailure();
    logger.error({ err: error }, "a checkpoint cannot be written to CHECKPOINT_FILE");
  },
  now,
  logger,
});
const counts = countLog(metrics, sequencer, now);
if (copies !== undefined) {
  const measureRoom = async () =>
    counts.setCheckpointRoom(await withinDeadline(copies.freeBytes(), READINESS_TIMEOUT_MS));
  service.every(ROOM_INTERVAL_MS, "room for checkpoints", measureRoom, { atOnce: true });
}

const store = {
  insertEntries: (entries: Parameters<typeof insertEntries>[1]) => insertEntries(pools.intake, entries),
};
const recorder = new EntryRecorder({
  insertEntries: (entries) => storeEntries(store, entries),
  selectEntriesById: (ids) => selectEntriesById(pools.intake, ids),
  logger,
  onCommit: countCommits(metrics),
});
metrics.gauge("gatehouse_audit_waiting_entries", "Entries received and waiting to be stored.", [], (gauge) =>
  gauge.set(recorder.waitingEntries),
);

const presence = createProducerPresence();
const closeIntents = createIntentCloser({
  afterS: config.AUDIT_CLOSE_INTENTS_AFTER_S,
  present: presence.present,
  upsertProducers: (producerIds) => upsertProducers(pools.intake, producerIds),
  selectAbandonedIntents: (afterS, limit) => selectAbandonedIntents(pools.intake, afterS, limit),
  deleteOpenIntents: (callIds) => deleteOpenIntents(pools.intake, callIds),
  storeEntries: (entries) => storeEntries(store, entries),
  onClosed: counts.onClosed,
  newId: uuidv4,
  now,
  monotonicMs: () => performance.now(),
});

const ownEvents = createOwnEventRecorder({ recorder, producerId: uuidv4(), now });
const recordReading = createReadingRecorder(ownEvents, now);

service.every(CLOSE_INTERVAL_MS, "closing of intents", closeIntents);
const counting = service.every(COUNT_INTERVAL_MS, "counting of logins", async () => {
  if (await countLogins(pools.reads)) counting.runSoon();
});

await service.serveRpc(config, {
  databases: [pools.intake, pools.reads],
  maxReceiveBytes: MAX_RECEIVE_BYTES,
  register: (server) => {
    server.add(
      AuditServiceService,
      AUDIT_CALLERS,
      createAuditRpc({
        recorder,
        presence,
        recordReading,
        eraseClaimedEmail: (address) => deleteClaimedEmail(pools.intake, address),
        now,
      }),
      ["record"],
    );
    server.add(
      AuditQueryServiceService,
      AUDIT_QUERY_CALLERS,
      createAuditQueryRpc({
        searchEntries: (search) =>
          searchEntries(
            {
              selectEntries: (filter, limit) => selectEntries(pools.reads, filter, limit),
              cursorKey: signer.cursorKey,
            },
            search,
          ),
        followEntries: (following) => followEntries(pools.reads, following),
        summarizeLog: (span) => summarizeLog(pools.reads, span),
        getEntry: (wanted) => getEntry(pools.reads, signer.origin, wanted),
        findCheckpoint: async (size) =>
          (size === 0
            ? await selectLastCheckpoint(pools.reads, signer.origin)
            : await selectCheckpointCovering(pools.reads, signer.origin, size)
          )?.note,
        proveInclusion: (sequence, treeSize) => proveInclusion(pools.reads, sequence, treeSize),
        proveConsistency: (first, second) => proveConsistency(pools.reads, first, second),
        exportEntries: (wanted) => exportEntries(pools.reads, signer.origin, wanted),
        verifierKey: signer.verifierKey,
        recordReading,
        monotonicMs: () => performance.now(),
      }),
    );
  },
});
// After `serveRpc`, which makes sure that each connection has a session of its own: they hold locks of sessions.
lifecycle.onStop("sequencer", runSequencer(sequencer, logger));
lifecycle.onStop(
  "maintenance",
  runMaintenance({
    sql: pools.maintenance,
    signer,
    sequencer,
    retentionMonths: config.AUDIT_RETENTION_MONTHS,
    setStray: counts.setStray,
    onFailure: counts.onMaintenanceFailure,
    now,
    logger,
  }),
);
lifecycle.ready();
