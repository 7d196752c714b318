import { v4 as uuidv4 } from "uuid";
import { withRoleOf } from "#kit/config/databases-file.ts";
import { assertSessions, connectPostgres, type Sql } from "#kit/database/postgres.ts";
import type { ServiceProcess } from "#kit/process/service-process.ts";
import { untilSuccess } from "#kit/telemetry/repeat.ts";
import { withinDeadline } from "#kit/values/call-deadline.ts";
import type { AuditConfig } from "./config.ts";
import { insertEntries, selectEntriesById } from "./entries/entry-store.ts";
import { storeEntries } from "./entries/store-entries.ts";
import { createProducerPresence } from "./intake/audit-rpc.ts";
import { CLOSE_INTERVAL_MS, createIntentCloser } from "./intake/close-intents.ts";
import { deleteOpenIntents, selectAbandonedIntents, upsertProducers } from "./intake/intent-store.ts";
import { type countCommits, EntryRecorder } from "./intake/record-entries.ts";
import { createCheckpointSigner, type TreeHead } from "./log/checkpoint.ts";
import { checkpointFile } from "./log/checkpoint-file.ts";
import type { countLogs } from "./log/count-log.ts";
import { MAINTENANCE_SESSION, runMaintenance, runSequencer } from "./log/maintain-log.ts";
import { SEQUENCER_SESSION, Sequencer } from "./log/sequencer.ts";
import { selectReplicas } from "./log/sequencer-store.ts";
import { originOf } from "./logs/logs.ts";
import { COUNT_INTERVAL_MS, countLogins } from "./query/summarize-log.ts";

const ROOM_TIMEOUT_MS = 1_000;
const ROOM_INTERVAL_MS = 60_000;
const DATABASE_CLOSE_TIMEOUT_S = 1;
const SEQUENCERS = "audit-service sequencer ";
/** Inserts use one connection at a time. */
export const INTAKE_POOL_SIZE = 3;
/** Rare and common search values need different plans. */
const READ_SESSION = { plan_cache_mode: "force_custom_plan" };

interface LogDeps {
  service: ServiceProcess;
  config: AuditConfig;
  /** The numbers of all logs. */
  numbers: readonly number[];
  counts: ReturnType<typeof countLogs>;
  countCommits: ReturnType<typeof countCommits>;
  /** The name of this replica, the same in all logs. */
  replica: string;
  /** What log 0 says of the log of this origin. */
  findNoted: (origin: string) => Promise<TreeHead | undefined>;
  now: () => Date;
}

export type AuditLog = ReturnType<typeof openLog>;

/** One log: its pools, the intake of its entries, its sequencer and its maintenance. It works after `start`. */
export function openLog({ number, url }: { number: number; url: string }, deps: LogDeps) {
  const { service, config, counts, now } = deps;
  const logger = number === 0 ? service.logger : service.logger.child({ log: number });
  const pools = openPools(url, deps, number);
  const origin = originOf(config.CHECKPOINT_ORIGIN, number);
  const { signer, file, sequencer } = createSequencer({ number, origin, sql: pools.sequencer, logger }, deps);
  const recorder = new EntryRecorder({
    insertEntries: store,
    selectEntriesById: (ids) => selectEntriesById(pools.intake, ids),
    logger,
    onCommit: deps.countCommits(number),
  });
  const presence = createProducerPresence();
  const closeIntents = createIntentCloser({
    log: number,
    afterS: config.AUDIT_CLOSE_INTENTS_AFTER_S,
    present: presence.present,
    upsertProducers: (producerIds) => upsertProducers(pools.intake, producerIds),
    selectAbandonedIntents: (afterS, limit) => selectAbandonedIntents(pools.intake, afterS, limit),
    deleteOpenIntents: (callIds) => deleteOpenIntents(pools.intake, callIds),
    storeEntries: store,
    onClosed: counts.onClosed,
    newId: uuidv4,
    now,
    monotonicMs: () => performance.now(),
  });
  function store(entries: Parameters<typeof storeEntries>[1]): Promise<number> {
    return storeEntries({ insertEntries: (each) => insertEntries(pools.intake, each) }, entries);
  }

  const log = {
    number,
    origin,
    verifierKey: signer.verifierKey,
    cursorKey: signer.cursorKey,
    /** Readers have a pool of their own, so that a slow search blocks no writes. */
    sql: pools.reads,
    intake: pools.intake,
    recorder,
    presence,
    sequencer,
    strayEntries: Number.NaN,
    checkpointRoom: Number.NaN,
    /** Its database is there, and each connection has a session of its own: they hold locks of sessions. */
    start() {
      service.every(CLOSE_INTERVAL_MS, `closing of intents ${number}`, closeIntents);
      const counting = service.every(COUNT_INTERVAL_MS, `counting of logins ${number}`, async () => {
        if (await countLogins(pools.reads)) counting.runSoon();
      });
      service.lifecycle.onStop(
        `sequencer ${number}`,
        runSequencer(sequencer, logger, isForAnother(pools.sequencer, number, deps)),
      );
      const maintenance = runMaintenance({
        sql: pools.maintenance,
        signer,
        sequencer,
        retentionMonths: config.AUDIT_RETENTION_MONTHS,
        setStray: (hasStray) => {
          log.strayEntries = Number(hasStray);
        },
        onFailure: counts.onMaintenanceFailure,
        now,
        logger,
      });
      service.lifecycle.onStop(`maintenance ${number}`, maintenance);
    },
    /** For a log whose database may be away for now. */
    async startWhenThere() {
      await untilSuccess(`log ${number}`, () => assertSessions(pools.intake), logger);
      log.start();
    },
  };
  if (file !== undefined) {
    const measureRoom = async () => {
      log.checkpointRoom = await withinDeadline(file.freeBytes(), ROOM_TIMEOUT_MS);
    };
    service.every(ROOM_INTERVAL_MS, `room for checkpoints ${number}`, measureRoom, { atOnce: true });
  }
  return log;
}

function openPools(url: string, { service, config, replica }: LogDeps, number: number) {
  const { lifecycle, logger } = service;
  const ofLog = { ...config, DATABASE_URL: number === 0 ? url : withRoleOf(config.DATABASE_URL, url) };
  const one = { ...ofLog, DATABASE_POOL_SIZE: 1 };
  const pools = {
    intake: connectPostgres({ ...ofLog, DATABASE_POOL_SIZE: INTAKE_POOL_SIZE }, "audit-service", logger),
    reads: connectPostgres(ofLog, "audit-service reads", logger, { session: READ_SESSION }),
    maintenance: connectPostgres(one, "audit-service maintenance", logger, { session: MAINTENANCE_SESSION }),
    sequencer: connectPostgres(one, `${SEQUENCERS}${replica}`, logger, { session: SEQUENCER_SESSION }),
  };
  lifecycle.onStop(`database ${number}`, async () => {
    await Promise.all(Object.values(pools).map((sql) => sql.end({ timeout: DATABASE_CLOSE_TIMEOUT_S })));
  });
  return pools;
}

/** The logs are dealt out to the replicas that are connected. Undefined if there is only one log. */
function isForAnother(sql: Sql, number: number, { config, numbers, replica, findNoted }: LogDeps) {
  if (numbers.length === 1) return undefined;
  return async () => {
    const replicas = await selectReplicas(sql, SEQUENCERS);
    if (replicas[numbers.indexOf(number) % replicas.length] === replica) return false;
    // Without log 0 no replica could begin with another log, this one included.
    if (number !== 0) await findNoted(originOf(config.CHECKPOINT_ORIGIN, number));
    return true;
  };
}

function createSequencer(
  {
    number,
    origin,
    sql,
    logger,
  }: { number: number; origin: string; sql: Sql; logger: ServiceProcess["logger"] },
  { config, numbers, counts, findNoted, now }: LogDeps,
) {
  const { CHECKPOINT_KEY_FILE: key, CHECKPOINT_FILE: path } = config;
  const signer = createCheckpointSigner(origin, key.reveal());
  /** Independent of LOG_LEVEL: checkpoints are also copied to standard output. */
  const checkpointLog = logger.child({}, { level: "info" });
  const file =
    path === undefined
      ? undefined
      : checkpointFile({ path: number === 0 ? path : `${path}.log-${number}`, signer });
  const others = numbers.filter((other) => other !== number);
  const sequencer = new Sequencer({
    sql,
    signer,
    file,
    publish: (checkpoint, { size }) => checkpointLog.info({ size, checkpoint }, "checkpoint"),
    onFileFailure: (error) => {
      counts.onFileFailure();
      logger.error({ err: error }, "a checkpoint cannot be written to CHECKPOINT_FILE");
    },
    otherOrigins: others.map((other) => originOf(config.CHECKPOINT_ORIGIN, other)),
    ...(number !== 0 && { findNoted: () => findNoted(origin) }),
    now,
    logger,
  });
  return { signer, file, sequencer };
}
