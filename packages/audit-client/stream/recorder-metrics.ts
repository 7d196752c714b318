import type { Metrics } from "#kit/telemetry/metrics.ts";

export type RecorderMetrics = ReturnType<typeof createRecorderMetrics>;

export function createRecorderMetrics(metrics: Metrics, queuedEntries: () => number) {
  metrics.gauge("gatehouse_audit_queued_entries", "Audit entries not acknowledged yet.", [], (gauge) =>
    gauge.set(queuedEntries()),
  );
  return {
    acknowledged: metrics.counter(
      "gatehouse_audit_acknowledged_total",
      "Audit entries acknowledged as committed.",
    ),
    reconnects: metrics.counter("gatehouse_audit_reconnects_total", "Audit streams that had to be reopened."),
    durableSeconds: metrics.histogram(
      "gatehouse_audit_durable_seconds",
      "Time until an audit entry that is waited for is durable.",
    ),
    spooled: metrics.counter(
      "gatehouse_audit_spooled_total",
      "Audit entries that went to the spool because audit-service did not acknowledge them in time.",
    ),
    drained: metrics.counter(
      "gatehouse_audit_spool_drained_total",
      "Audit entries acknowledged from the spool.",
    ),
    spoolErrors: metrics.counter(
      "gatehouse_audit_spool_errors_total",
      "Failures to write, read or remove spool files.",
    ),
  };
}
