import { isAbsolute } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { v4 as uuidv4 } from "uuid";
import { z } from "zod";
import { integerSchema } from "#kit/config/config.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import { type ResendDeps, resendRun } from "./resend-run.ts";
import { discardFile } from "./set-aside.ts";
import { Spool } from "./spool.ts";
import { type FormerRun, openSpoolDirectory, UNREADABLE_ENTRIES } from "./spool-directory.ts";
import { nodeFileSystem, type SpoolFileSystem } from "./spool-file-system.ts";
import type { LostEntries } from "./spool-segment.ts";

export interface AuditSpoolOptions {
  directory: string;
  /** Includes files of former processes. */
  maxBytes: number;
  producerId: string;
  logger: Logger;
  metrics: Metrics;
  files?: SpoolFileSystem;
}

export interface AuditSpool {
  producerId: string;
  spool: Spool;
  resendFormer(deps: Omit<ResendDeps, "onDamage">): Promise<void>;
  /** Must be called after `resendFormer`. */
  resendTaken(deps: Omit<ResendDeps, "onDamage">): Promise<void>;
  /** Must not run beside `resendFormer`. */
  drain(deps: Omit<ResendDeps, "onDamage">): Promise<SpoolRemains>;
  close(): Promise<void>;
}

export interface SpoolRemains {
  unsentFiles: number;
  damagedFiles: number;
  sentEntries: number;
}

const MIB = 1024 * 1024;

export const spoolConfig = {
  AUDIT_SPOOL_DIRECTORY: z.string().refine(isAbsolute, "must be an absolute path").optional(),
  /** At least the size of a full queue in memory. */
  AUDIT_SPOOL_MAX_BYTES: integerSchema(64 * MIB, 64 * 1024 * MIB).default(256 * MIB),
};

const LOOK_AGAIN_MS = 30_000;
const DRAIN_AGAIN_MS = 1_000;

/** @throws as `openAuditSpool`. */
export async function openConfiguredSpool(
  config: { AUDIT_SPOOL_DIRECTORY?: string | undefined; AUDIT_SPOOL_MAX_BYTES: number },
  logger: Logger,
  metrics: Metrics,
): Promise<AuditSpool | undefined> {
  const { AUDIT_SPOOL_DIRECTORY: directory, AUDIT_SPOOL_MAX_BYTES: maxBytes } = config;
  if (directory === undefined) return undefined;
  return openAuditSpool({ directory, maxBytes, producerId: uuidv4(), logger, metrics });
}

/** Claims files of dead processes. @throws if the directory cannot be used. */
export async function openAuditSpool(options: AuditSpoolOptions): Promise<AuditSpool> {
  const { producerId, maxBytes, logger, metrics, files = nodeFileSystem } = options;
  const directory = await openSpoolDirectory({ files, path: options.directory, producerId, logger });
  let former = await directory.takeOver();
  const spool = new Spool({
    files,
    directory: directory.own,
    damagedDirectory: directory.damaged,
    producerId,
    maxBytes,
    bytesOfOthers: () => former.flat().reduce((sum, { bytes }) => sum + bytes, 0),
    onDamage: (file, fromSequence, toSequence) => tellDamage(file, { fromSequence, toSequence }),
  });
  let sentEntries = 0;
  let damagedFiles = await directory.countDamaged().catch(() => Number.NaN);
  metrics.gauge(
    "gatehouse_audit_spool_damaged_files",
    "Spool files with entries that can no longer be read, set aside for inspection.",
    [],
    (gauge) => gauge.set(damagedFiles),
  );
  metrics.gauge("gatehouse_audit_spool_bytes", "Size of the spool files.", [], (gauge) =>
    gauge.set(spool.bytes),
  );
  const recovered = metrics.counter(
    "gatehouse_audit_spool_recovered_total",
    "Audit entries of former processes that were sent from their spool files.",
  );

  function tellDamage(file: string, lost: LostEntries): void {
    logger.error({ file, lost: [lost] }, UNREADABLE_ENTRIES);
  }

  async function resendAll(deps: ResendDeps): Promise<void> {
    for (const run of [...former]) {
      let entries: number;
      try {
        entries = await resendRun(deps, run);
      } catch (error) {
        if (deps.signal.aborted) throw error;
        const facts = { err: error, formerProducer: run[0]?.producerId };
        logger.error(facts, "spool files of a former process cannot be sent; sending will be retried");
        continue;
      }
      recovered.inc(entries);
      sentEntries += entries;
      logger.info(
        { entries, formerProducer: run[0]?.producerId },
        "audit entries of a former process were sent",
      );
      // A failed removal then only causes a repetition, which is stored once.
      former = former.filter((other) => other !== run);
      await discard(run);
    }
  }

  async function resendRound(deps: ResendDeps): Promise<void> {
    try {
      await resendAll(deps);
      damagedFiles = await directory.countDamaged();
    } catch (error) {
      if (deps.signal.aborted) return;
      logger.error(
        { err: error },
        "spool files of a former process cannot be removed; removal will be retried",
      );
    }
  }

  async function takeOverMore(): Promise<void> {
    former = [...former, ...(await directory.takeOver())];
  }

  async function discard(run: FormerRun): Promise<void> {
    for (const segment of run) {
      await segment.file.close();
      await discardFile(files, segment, directory.damaged);
    }
  }

  return {
    producerId,
    spool,
    async resendFormer(given) {
      const deps = { ...given, onDamage: tellDamage };
      while (!deps.signal.aborted) {
        await resendRound(deps);
        await pause(LOOK_AGAIN_MS, deps.signal);
        if (!deps.signal.aborted) await takeOverMore();
      }
    },
    resendTaken: (given) => resendRound({ ...given, onDamage: tellDamage }),
    async drain(given) {
      const deps = { ...given, onDamage: tellDamage };
      for (;;) {
        await resendRound(deps);
        const unsentFiles = await directory.countUnsent();
        if (unsentFiles === 0 || deps.signal.aborted) return { unsentFiles, damagedFiles, sentEntries };
        await pause(DRAIN_AGAIN_MS, deps.signal);
        await takeOverMore();
      }
    },
    async close() {
      for (const { file } of former.flat()) await file.close();
      await spool.close();
      await directory.close();
    },
  };
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal, ref: false }).catch(() => undefined);
}
