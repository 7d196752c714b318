import { setTimeout as sleep } from "node:timers/promises";
import { v4 as uuidv4 } from "uuid";
import type { Logger } from "../service-kit/logger.ts";
import type { Metrics } from "../service-kit/metrics.ts";
import { type ResendDeps, resendRun } from "./resend-run.ts";
import { discardFile } from "./set-aside.ts";
import { Spool } from "./spool.ts";
import { type FormerRun, openSpoolDirectory, UNREADABLE_ENTRIES } from "./spool-directory.ts";
import { nodeFileSystem, type SpoolFileSystem } from "./spool-file-system.ts";
import type { LostEntries } from "./spool-segment.ts";

export interface AuditSpoolOptions {
  /** Absolute path, on a local disk; several processes of one host may share it. */
  directory: string;
  /** Of all files of this process, former ones' included. */
  maxBytes: number;
  /** UUID, another one in each process start. */
  producerId: string;
  logger: Logger;
  metrics: Metrics;
  files?: SpoolFileSystem;
}

/** Where entries are durable while audit-service is away. */
export interface AuditSpool {
  producerId: string;
  spool: Spool;
  /** Sends what processes that live no more have left, now and whenever one dies beside us. Until the signal. */
  resendFormer(deps: Omit<ResendDeps, "onDamage">): Promise<void>;
  close(): Promise<void>;
}

const LOOK_AGAIN_MS = 30_000;

/** The spool that a configuration asks for (`spoolConfig`); undefined if it asks for none. @throws as `openAuditSpool`. */
export async function openConfiguredSpool(
  config: { AUDIT_SPOOL_DIRECTORY?: string | undefined; AUDIT_SPOOL_MAX_BYTES: number },
  logger: Logger,
  metrics: Metrics,
): Promise<AuditSpool | undefined> {
  const { AUDIT_SPOOL_DIRECTORY: directory, AUDIT_SPOOL_MAX_BYTES: maxBytes } = config;
  if (directory === undefined) return undefined;
  return openAuditSpool({ directory, maxBytes, producerId: uuidv4(), logger, metrics });
}

/**
 * Opens the spool of this process and takes over what dead ones have left.
 *
 * @throws if the directory cannot be used.
 */
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
  let damagedFiles = await directory.countDamaged().catch(() => Number.NaN);
  metrics.gauge(
    "gatehouse_audit_spool_damaged_files",
    "Spool files with entries that cannot be read any more, set aside for people to look at.",
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
        logger.error(facts, "spool files of a former process cannot be sent; it is tried again");
        continue;
      }
      recovered.inc(entries);
      logger.info(
        { entries, formerProducer: run[0]?.producerId },
        "audit entries of a former process were sent",
      );
      // First: what cannot be removed is sent again by the next process, and stored once.
      former = former.filter((other) => other !== run);
      await discard(run);
    }
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
        try {
          await resendAll(deps);
          damagedFiles = await directory.countDamaged();
          await sleep(LOOK_AGAIN_MS, undefined, { signal: deps.signal, ref: false });
          former = [...former, ...(await directory.takeOver())];
        } catch (error) {
          if (deps.signal.aborted) return;
          logger.error(
            { err: error },
            "spool files of a former process cannot be removed; it is tried again",
          );
          await sleep(LOOK_AGAIN_MS, undefined, { signal: deps.signal, ref: false }).catch(() => undefined);
        }
      }
    },
    async close() {
      for (const { file } of former.flat()) await file.close();
      await spool.close();
      await directory.close();
    },
  };
}
