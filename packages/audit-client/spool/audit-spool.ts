import { isAbsolute } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { integerSchema } from "#kit/config/config.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import { newProducerId } from "../stream/producer-id.ts";
import { type ResendDeps, resendRun } from "./resend-run.ts";
import { Spool } from "./spool.ts";
import { type FormerRun, SpoolDirectory, UNREADABLE_ENTRIES } from "./spool-directory.ts";
import { discardFile, nodeFileSystem, type SpoolFileSystem } from "./spool-file-system.ts";
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

type GivenDeps = Omit<ResendDeps, "onDamage">;

export interface SpoolRemains {
  unsentFiles: number;
  damagedFiles: number;
  sentEntries: number;
}

interface Opened {
  files: SpoolFileSystem;
  directory: SpoolDirectory;
  former: FormerRun[];
  damagedFiles: number;
}

const MIB = 1024 * 1024;

export const spoolConfig = {
  AUDIT_SPOOL_DIRECTORY: z.string().refine(isAbsolute, "must be an absolute path").optional(),
  /** Must have room for a full queue in memory. */
  AUDIT_SPOOL_MAX_BYTES: integerSchema(64 * MIB, 64 * 1024 * MIB).default(256 * MIB),
};

const LOOK_AGAIN_MS = 30_000;
const DRAIN_AGAIN_MS = 1_000;

/** @throws as `AuditSpool.open`. */
export async function openConfiguredSpool(
  config: { AUDIT_SPOOL_DIRECTORY?: string | undefined; AUDIT_SPOOL_MAX_BYTES: number },
  logger: Logger,
  metrics: Metrics,
): Promise<AuditSpool | undefined> {
  const { AUDIT_SPOOL_DIRECTORY: directory, AUDIT_SPOOL_MAX_BYTES: maxBytes } = config;
  if (directory === undefined) return undefined;
  return AuditSpool.open({ directory, maxBytes, producerId: newProducerId(0), logger, metrics });
}

/** What this process could not send in time, and what former processes left. */
export class AuditSpool {
  readonly producerId: string;
  readonly spool: Spool;
  readonly #files: SpoolFileSystem;
  readonly #directory: SpoolDirectory;
  readonly #logger: Logger;
  readonly #recovered: { inc(entries: number): void };
  #former: FormerRun[];
  #sentEntries = 0;
  #damagedFiles: number;

  /** Claims files of dead processes. @throws if the directory cannot be used. */
  static async open(options: AuditSpoolOptions): Promise<AuditSpool> {
    const { directory: path, producerId, logger, files = nodeFileSystem } = options;
    const directory = await SpoolDirectory.open({ files, path, producerId, logger });
    const former = await directory.takeOver();
    const damagedFiles = await directory.countDamaged().catch(() => Number.NaN);
    return new AuditSpool(options, { files, directory, former, damagedFiles });
  }

  private constructor({ producerId, maxBytes, logger, metrics }: AuditSpoolOptions, opened: Opened) {
    const { files, directory } = opened;
    this.producerId = producerId;
    this.#files = files;
    this.#directory = directory;
    this.#logger = logger;
    this.#former = opened.former;
    this.#damagedFiles = opened.damagedFiles;
    this.spool = new Spool({
      files,
      directory: directory.own,
      damagedDirectory: directory.damaged,
      producerId,
      maxBytes,
      bytesOfOthers: () => this.#former.flat().reduce((sum, { bytes }) => sum + bytes, 0),
      onDamage: (file, fromSequence, toSequence) => this.#logDamage(file, { fromSequence, toSequence }),
    });
    metrics.gauge(
      "gatehouse_audit_spool_damaged_files",
      "Spool files with entries that can no longer be read, set aside for inspection.",
      [],
      (gauge) => gauge.set(this.#damagedFiles),
    );
    metrics.gauge("gatehouse_audit_spool_bytes", "Size of the spool files.", [], (gauge) =>
      gauge.set(this.spool.bytes),
    );
    this.#recovered = metrics.counter(
      "gatehouse_audit_spool_recovered_total",
      "Audit entries of former processes that were sent from their spool files.",
    );
  }

  async resendFormer(given: GivenDeps): Promise<void> {
    const { signal } = given;
    while (!signal.aborted) {
      await this.resendTaken(given);
      await pause(LOOK_AGAIN_MS, signal);
      if (!signal.aborted) await this.#takeOverMore();
    }
  }

  /** Must be called after `resendFormer`. */
  async resendTaken(given: GivenDeps): Promise<void> {
    try {
      await this.#resendAll({ ...given, onDamage: (file, lost) => this.#logDamage(file, lost) });
      this.#damagedFiles = await this.#directory.countDamaged();
    } catch (error) {
      if (given.signal.aborted) return;
      this.#logger.error(
        { err: error },
        "spool files of a former process cannot be removed; removal will be retried",
      );
    }
  }

  /** Must not run beside `resendFormer`. */
  async drain(given: GivenDeps): Promise<SpoolRemains> {
    for (;;) {
      await this.resendTaken(given);
      const unsentFiles = await this.#directory.countUnsent();
      if (unsentFiles === 0 || given.signal.aborted)
        return { unsentFiles, damagedFiles: this.#damagedFiles, sentEntries: this.#sentEntries };
      await pause(DRAIN_AGAIN_MS, given.signal);
      await this.#takeOverMore();
    }
  }

  async close(): Promise<void> {
    for (const { file } of this.#former.flat()) await file.close();
    await this.spool.close();
    await this.#directory.close();
  }

  async #resendAll(deps: ResendDeps): Promise<void> {
    for (const run of [...this.#former]) {
      const formerProducer = run[0]?.producerId;
      let entries: number;
      try {
        entries = await resendRun(deps, run);
      } catch (error) {
        if (deps.signal.aborted) throw error;
        this.#logger.error(
          { err: error, formerProducer },
          "spool files of a former process cannot be sent; sending will be retried",
        );
        continue;
      }
      this.#recovered.inc(entries);
      this.#sentEntries += entries;
      this.#logger.info({ entries, formerProducer }, "audit entries of a former process were sent");
      // A failed removal then only causes a repetition, which is stored once.
      this.#former = this.#former.filter((other) => other !== run);
      await this.#discard(run);
    }
  }

  async #takeOverMore(): Promise<void> {
    this.#former = [...this.#former, ...(await this.#directory.takeOver())];
  }

  async #discard(run: FormerRun): Promise<void> {
    for (const segment of run) {
      await segment.file.close();
      await discardFile(this.#files, segment, this.#directory.damaged);
    }
  }

  #logDamage(file: string, lost: LostEntries): void {
    this.#logger.error({ file, lost: [lost] }, UNREADABLE_ENTRIES);
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal, ref: false }).catch(() => undefined);
}
