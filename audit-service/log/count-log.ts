import type { Metrics } from "#kit/telemetry/metrics.ts";
import type { Sequencer } from "./sequencer.ts";

export function countLog(metrics: Metrics, sequencer: Sequencer, now: () => Date) {
  const gauge = (name: string, help: string, value: () => number) =>
    metrics.gauge(name, help, [], (each) => each.set(value()));
  const ageS = (since: Date | undefined) =>
    since === undefined ? Number.NaN : Math.max(0, (now().getTime() - since.getTime()) / 1_000);
  gauge("gatehouse_audit_sequencer", "1 on the replica that numbers the log.", () =>
    Number(sequencer.status.isSequencer),
  );
  gauge(
    "gatehouse_audit_refused",
    "1 while the log does not fit its checkpoints and nothing is signed.",
    () => Number(sequencer.status.refusal !== undefined),
  );
  gauge("gatehouse_audit_log_size", "Numbered entries known to this replica.", () => sequencer.status.size);
  gauge(
    "gatehouse_audit_backlog_entries",
    "Entries without a number at the last check, at most 2000.",
    () => sequencer.status.backlogEntries,
  );
  gauge("gatehouse_audit_head_age_seconds", "Time since this replica last numbered an entry.", () =>
    ageS(sequencer.status.numberedAt),
  );
  gauge(
    "gatehouse_audit_checkpoint_size",
    "Entries that the last checkpoint covers.",
    () => sequencer.status.checkpointSize,
  );
  gauge("gatehouse_audit_checkpoint_age_seconds", "Time since the last checkpoint.", () =>
    ageS(sequencer.status.checkpointAt),
  );
  let strayEntries = Number.NaN;
  gauge(
    "gatehouse_audit_stray_entries",
    "1 if there are entries outside the monthly partitions.",
    () => strayEntries,
  );
  const closed = metrics.counter("gatehouse_audit_intents_closed_total", "Intents closed as unknown.");
  const fileFailures = metrics.counter(
    "gatehouse_audit_checkpoint_file_failures_total",
    "Checkpoints that could not be written to CHECKPOINT_FILE.",
  );
  const maintenanceFailures = metrics.counter(
    "gatehouse_audit_maintenance_failures_total",
    "Failed maintenance tasks (partitions, keys, retention).",
  );
  let checkpointRoom = Number.NaN;
  gauge(
    "gatehouse_audit_checkpoint_file_free_bytes",
    "Free space on the volume of CHECKPOINT_FILE.",
    () => checkpointRoom,
  );
  return {
    setCheckpointRoom(bytes: number) {
      checkpointRoom = bytes;
    },
    onMaintenanceFailure: () => maintenanceFailures.inc(),
    onClosed: (count: number) => closed.inc(count),
    onFileFailure: () => fileFailures.inc(),
    setStray: (hasStray: boolean) => {
      strayEntries = Number(hasStray);
    },
  };
}
