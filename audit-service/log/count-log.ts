import type { Metrics } from "#kit/telemetry/metrics.ts";
import type { SequencerStatus } from "./sequencer.ts";

interface MeasuredLog {
  number: number;
  sequencer: { readonly status: SequencerStatus };
  /** NaN until it was looked for. */
  strayEntries: number;
  checkpointRoom: number;
}

/** Gauges of each log. Those of a log that is opened later are counted, too. */
export function measureLogs(metrics: Metrics, logs: readonly MeasuredLog[], now: () => Date): void {
  const gauge = (name: string, help: string, value: (log: MeasuredLog) => number) =>
    metrics.gauge(name, help, ["log"], (each) => {
      for (const log of logs) each.set({ log: String(log.number) }, value(log));
    });
  const ageS = (since: Date | undefined) =>
    since === undefined ? Number.NaN : Math.max(0, (now().getTime() - since.getTime()) / 1_000);
  gauge("gatehouse_audit_sequencer", "1 on the replica that numbers the log.", ({ sequencer }) =>
    Number(sequencer.status.isSequencer),
  );
  gauge(
    "gatehouse_audit_refused",
    "1 while the log does not fit its checkpoints and nothing is signed.",
    ({ sequencer }) => Number(sequencer.status.refusal !== undefined),
  );
  gauge(
    "gatehouse_audit_log_size",
    "Numbered entries known to this replica.",
    ({ sequencer }) => sequencer.status.size,
  );
  gauge(
    "gatehouse_audit_backlog_entries",
    "Entries without a number at the last check, at most 2000; 0 where another replica numbers.",
    ({ sequencer }) => sequencer.status.backlogEntries,
  );
  gauge(
    "gatehouse_audit_head_age_seconds",
    "Time since this replica last numbered an entry.",
    ({ sequencer }) => ageS(sequencer.status.numberedAt),
  );
  gauge(
    "gatehouse_audit_checkpoint_size",
    "Entries that the last checkpoint covers.",
    ({ sequencer }) => sequencer.status.checkpointSize,
  );
  gauge("gatehouse_audit_checkpoint_age_seconds", "Time since the last checkpoint.", ({ sequencer }) =>
    ageS(sequencer.status.checkpointAt),
  );
  gauge(
    "gatehouse_audit_stray_entries",
    "1 if there are entries outside the monthly partitions.",
    ({ strayEntries }) => strayEntries,
  );
  gauge(
    "gatehouse_audit_checkpoint_file_free_bytes",
    "Free space on the volume of CHECKPOINT_FILE.",
    ({ checkpointRoom }) => checkpointRoom,
  );
}

/** All logs are counted together. */
export function countLogs(metrics: Metrics) {
  const closed = metrics.counter("gatehouse_audit_intents_closed_total", "Intents closed as unknown.");
  const fileFailures = metrics.counter(
    "gatehouse_audit_checkpoint_file_failures_total",
    "Checkpoints that could not be written to CHECKPOINT_FILE.",
  );
  const maintenanceFailures = metrics.counter(
    "gatehouse_audit_maintenance_failures_total",
    "Failed maintenance tasks (partitions, keys, retention).",
  );
  return {
    onClosed: (count: number) => closed.inc(count),
    onFileFailure: () => fileFailures.inc(),
    onMaintenanceFailure: () => maintenanceFailures.inc(),
  };
}
