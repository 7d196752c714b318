import { isAbsolute } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { v4 as uuidv4 } from "uuid";
import { z } from "zod";
import { integerSchema } from "#kit/config/config.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import { logOfProducer, newProducerId } from "../stream/producer-id.ts";
import { type ResendDeps, resendRun } from "./resend-run.ts";
import { Spool } from "./spool.ts";
import { type FormerRun, SpoolDirectory, UNREADABLE_ENTRIES } from "./spool-directory.ts";
import { discardFile, nodeFileSystem, type SpoolFileSystem } from "./spool-file-system.ts";
import type { LostEntries } from "./spool-segment.ts";

export interface AuditSpoolOptions {
  directory: string;
  /** All producers and the files of former processes share it. */
  maxBytes: number;
  /** This process has one for each log. */
  producerIds: readonly string[];
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
/** Must have room for a full queue in memory. */
const MIN_BYTES = 64 * MIB;

export const spoolConfig = {
  AUDIT_SPOOL_DIRECTORY: z.string().refine(isAbsolute, "must be an absolute path").optional(),
  AUDIT_SPOOL_MAX_BYTES: integerSchema(MIN_BYTES, 64 * 1024 * MIB).default(256 * MIB),
};

interface SpoolConfig {
  AUDIT_SPOOL_DIRECTORY?: string | undefined;
  AUDIT_SPOOL_MAX_BYTES: number;
}

export function spoolConfigProblem(config: SpoolConfig, logs: number): string | undefined {
  const { AUDIT_SPOOL_DIRECTORY: directory, AUDIT_SPOOL_MAX_BYTES: maxBytes } = config;
  if (directory === undefined || maxBytes >= logs * MIN_BYTES) return undefined;
  return `must be at least ${logs * MIN_BYTES}, 64 MiB for each of AUDIT_LOGS`;
}

const LOOK_AGAIN_MS = 30_000;
const DRAIN_AGAIN_MS = 1_000;

/** @throws as `AuditSpool.open`. */
export async function openConfiguredSpool(
  config: SpoolConfig & { AUDIT_LOGS: readonly number[] },
  logger: Logger,
  metrics: Metrics,
): Promise<AuditSpool | undefined> {
  const { AUDIT_SPOOL_DIRECTORY: directory, AUDIT_SPOOL_MAX_BYTES: maxBytes } = config;
  if (directory === undefined) return undefined;
  const producerIds = config.AUDIT_LOGS.map(newProducerId);
  return AuditSpool.open({ directory, maxBytes, producerIds, logger, metrics });
}

/** What this process could not send in time, and what former processes left. */
export class AuditSpool {
  /** By producer. */
  readonly spools: ReadonlyMap<string, Spool>;
  readonly #files: SpoolFileSystem;
  readonly #directory: SpoolDirectory;
  readonly #logger: Logger;
  readonly #recovered: { inc(entries: number): void };
  #former: FormerRun[];
  /** By log: one that is away must not delay the others' entries. */
  readonly #resends = new Map<number, Promise<void>>();
  #sentEntries = 0;
  #damagedFiles: number;

  /** Claims files of dead processes. @throws if the directory cannot be used. */
  static async open(options: AuditSpoolOptions): Promise<AuditSpool> {
    const { directory: path, logger, files = nodeFileSystem } = options;
    const directory = await SpoolDirectory.open({ files, path, name: uuidv4(), logger });
    const former = await directory.takeOver();
    const damagedFiles = await directory.countDamaged().catch(() => Number.NaN);
    return new AuditSpool(options, { files, directory, former, damagedFiles });
  }

  private constructor({ producerIds, maxBytes, logger, metrics }: AuditSpoolOptions, opened: Opened) {
    const { files, directory } = opened;
    this.#files = files;
    this.#directory = directory;
    this.#logger = logger;
    this.#former = opened.former;
    this.#damagedFiles = opened.damagedFiles;
    const shares = producerIds.length;
    const spoolOf = (producerId: string) =>
      new Spool({
        files,
        directory: directory.own,
        damagedDirectory: directory.damaged,
        producerId,
        maxBytes: Math.floor(maxBytes / shares),
        bytesOfOthers: () => this.#formerBytes / shares,
        onDamage: (file, fromSequence, toSequence) => this.#logDamage(file, { fromSequence, toSequence }),
      });
    this.spools = new Map(producerIds.map((producerId) => [producerId, spoolOf(producerId)]));
    metrics.gauge(
      "gatehouse_audit_spool_damaged_files",
      "Spool files with entries that can no longer be read, set aside for inspection.",
      [],
      (gauge) => gauge.set(this.#damagedFiles),
    );
    metrics.gauge("gatehouse_audit_spool_bytes", "Size of the spool files.", [], (gauge) =>
      gauge.set(this.spools.values().reduce((sum, { bytes }) => sum + bytes, this.#formerBytes)),
    );
    this.#recovered = metrics.counter(
      "gatehouse_audit_spool_recovered_total",
      "Audit entries of former processes that were sent from their spool files.",
    );
  }

  get #formerBytes(): number {
    return this.#former.flat().reduce((sum, { bytes }) => sum + bytes, 0);
  }

  async resendFormer(given: GivenDeps): Promise<void> {
    const { signal } = given;
    while (!signal.aborted) {
      void this.resendTaken(given);
      await pause(LOOK_AGAIN_MS, signal);
      if (!signal.aborted) await this.#takeOverMore();
    }
    await Promise.all(this.#resends.values());
  }

  /** Must be called after `resendFormer`. */
  async resendTaken(given: GivenDeps): Promise<void> {
    for (const log of new Set(this.#former.map(logOf))) {
      if (this.#resends.has(log)) continue;
      const resend = this.#resendLog(log, given).finally(() => this.#resends.delete(log));
      this.#resends.set(log, resend);
    }
    await Promise.all(this.#resends.values());
  }

  async #resendLog(log: number, given: GivenDeps): Promise<void> {
    try {
      await this.#resendAll(log, { ...given, onDamage: (file, lost) => this.#logDamage(file, lost) });
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
    for (const spool of this.spools.values()) await spool.close();
    await this.#directory.close();
  }

  async #resendAll(log: number, deps: ResendDeps): Promise<void> {
    for (const run of this.#former.filter((each) => logOf(each) === log)) {
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
    const more = await this.#directory.takeOver();
    this.#former = [...this.#former, ...more];
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

function logOf(run: FormerRun): number {
  return logOfProducer(run[0]?.producerId ?? "");
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal, ref: false }).catch(() => undefined);
}
