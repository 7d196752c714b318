import { generateKeyPairSync } from "node:crypto";
import { pino } from "pino";
import { producedEntry, store } from "#audit-service/entries/entry.fixture.ts";
import type { Entry, ProducedEntry } from "#audit-service/entries/entry.ts";
import { createCheckpointSigner, type TreeHead } from "#audit-service/log/checkpoint.ts";
import type { CheckpointFile } from "#audit-service/log/checkpoint-file.ts";
import { chainHash, FIRST_CHAIN_HASH, leafData } from "#audit-service/log/leaf.ts";
import { hashLeaf } from "#audit-service/log/merkle-tree.ts";
import { SEQUENCER_SESSION, Sequencer, type SequencerStatus } from "#audit-service/log/sequencer.ts";
import { originOf, type ReadableLog } from "#audit-service/logs/logs.ts";
import { Secret } from "#kit/config/config.ts";
import { connectPostgres, type Sql } from "#kit/database/postgres.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import { createTestDatabase, type TestDatabase } from "../database/postgres.ts";
import { receiveInMonth } from "./audit-log.ts";

const logger = pino({ level: "silent" });
export const KEY = generateKeyPairSync("ed25519").privateKey;
export const ORIGIN = "gatehouse.test/audit";
export const signer = createCheckpointSigner(ORIGIN, KEY);

/** A log as its readers get it. */
export function readableLog(sql: Sql, number = 0): ReadableLog {
  const origin = originOf(ORIGIN, number);
  return { number, sql, origin, verifierKey: createCheckpointSigner(origin, KEY).verifierKey };
}

/** The status of a sequencer that has not begun, on an empty log. */
export const INITIAL_STATUS: SequencerStatus = {
  isSequencer: false,
  refusal: undefined,
  size: 0,
  checkpointSize: 0,
  numberedAt: undefined,
  checkpointAt: undefined,
  backlogEntries: 0,
};

export interface TestSequencer extends Sequencer {
  sql: Sql;
  published: { note: string; head: TreeHead }[];
  /** Steps until nothing is left to do and everything is signed. */
  catchUp(): Promise<void>;
  /** Ends its connection. */
  close(): Promise<void>;
}

export interface TestSequencerOptions
  extends Pick<ConstructorParameters<typeof Sequencer>[0], "findNoted" | "otherOrigins"> {
  origin?: string;
  file?: CheckpointFile;
  /** Without it, a failure of the file is thrown. */
  onFileFailure?: (error: unknown) => void;
  now?: () => Date;
  logger?: Logger;
  maxBatchEntries?: number;
}

/** A replica's sequencer, on a connection of its own. */
export function testSequencer(
  database: Pick<TestDatabase, "url" | "password">,
  options: TestSequencerOptions = {},
): TestSequencer {
  const config = {
    DATABASE_URL: database.url,
    DATABASE_PASSWORD_FILE: new Secret(database.password),
    DATABASE_POOL_SIZE: 1,
  };
  const sql = connectPostgres(config, "sequencer", logger, { session: SEQUENCER_SESSION });
  const published: TestSequencer["published"] = [];
  let clockMs = Date.now();
  const sequencer = new Sequencer({
    sql,
    signer: options.origin === undefined ? signer : createCheckpointSigner(options.origin, KEY),
    file: options.file,
    publish: (note, head) => void published.push({ note, head }),
    onFileFailure:
      options.onFileFailure ??
      ((error) => {
        throw error;
      }),
    now:
      options.now ??
      (() => {
        clockMs += 1_000; // every step may sign
        return new Date(clockMs);
      }),
    logger: options.logger ?? logger,
    ...(options.findNoted && { findNoted: options.findNoted }),
    ...(options.otherOrigins && { otherOrigins: options.otherOrigins }),
    ...(options.maxBatchEntries !== undefined && { maxBatchEntries: options.maxBatchEntries }),
  });
  return Object.assign(sequencer, {
    sql,
    published,
    async catchUp() {
      for (let quiet = 0; quiet < 2; ) {
        const before = sequencer.status.size;
        const isMore = await sequencer.step();
        quiet = isMore || sequencer.status.size !== before ? 0 : quiet + 1;
      }
    },
    close: () => sql.end({ timeout: 1 }),
  });
}

/** A log in a database of its own, with one producer and any number of sequencers. */
export interface TestLog {
  database: TestDatabase;
  /** The producer's next entry. Its resource is its number. */
  nextEntry(changes?: Partial<Entry>): ProducedEntry;
  /** Stores the producer's next entries. */
  record(count: number, changes?: Partial<Entry>): Promise<void>;
  /** Stores the producer's next entries as if they had been received on the tenth of a month. */
  recordIn(month: number, count: number): Promise<void>;
  /** A sequencer that is closed with the log. */
  sequencer(options?: TestSequencerOptions): TestSequencer;
  close(): Promise<void>;
}

export async function openTestLog(): Promise<TestLog> {
  const database = await createTestDatabase("audit-service");
  const sequencers: TestSequencer[] = [];
  let sequence = 0;
  const nextEntry: TestLog["nextEntry"] = (changes) => {
    sequence += 1;
    return producedEntry(sequence, { resource: String(sequence), ...changes });
  };
  const record: TestLog["record"] = async (count, changes) => {
    await store(
      database.sql,
      Array.from({ length: count }, () => nextEntry(changes)),
    );
  };
  return {
    database,
    nextEntry,
    record,
    async recordIn(month, count) {
      await record(count);
      await receiveInMonth(database.ownerSql, month);
    },
    sequencer(options) {
      const made = testSequencer(database, options);
      sequencers.push(made);
      return made;
    },
    async close() {
      await Promise.all(sequencers.map((each) => each.close()));
      await database.drop();
    },
  };
}

interface LogRow {
  sequence: string;
  id: string;
  producer_name: string;
  [column: string]: unknown;
}

/** Reads the whole log as an auditor with SQL would, and recomputes each hash from the rows. */
export async function recomputedLog(ownerSql: Sql) {
  const rows = await ownerSql<LogRow[]>`
    select e.*, l.sequence, l.leaf_hash, l.chain_hash from leaves as l join log_entries as e using (position, received_at)
    order by l.sequence`;
  let chain: Buffer = FIRST_CHAIN_HASH;
  return rows.map((row) => {
    const leafHash = hashLeaf(
      leafData({
        sequence: Number(row.sequence),
        id: row.id,
        producer: row.producer_name,
        kind: row.kind as "outcome",
        callId: row.call_id as string,
        occurredAt: row.occurred_at as Date,
        receivedAt: row.received_at as Date,
        actor: {
          userId: row.actor_user_id as string,
          role: row.actor_role as string,
          sessionId: row.actor_session_id as string,
          claimedEmail: "",
          claimedEmailHash: row.claimed_email_hash as string,
        },
        clientIp: row.client_ip as string,
        userAgent: row.user_agent as string,
        method: row.method as string,
        route: row.route as string,
        resource: row.resource as string,
        action: row.action as string,
        requestId: row.request_id as string,
        traceId: row.trace_id as string,
        outcome: row.outcome as "success",
        errorCode: row.error_code as string,
        reason: row.reason as string,
        httpStatus: row.http_status as number,
        latencyUs: Number(row.latency_us),
      }),
    );
    chain = chainHash(chain, leafHash);
    return {
      sequence: Number(row.sequence),
      resource: row.resource as string,
      leafHash,
      isIntact: leafHash.equals(row.leaf_hash as Buffer) && chain.equals(row.chain_hash as Buffer),
    };
  });
}
