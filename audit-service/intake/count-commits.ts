import type { Metrics } from "../../service-kit/metrics.ts";
import type { RecordDeps } from "./record-entries.ts";

/** Counts what is committed, as `onCommit` of the recorder. */
export function countCommits(metrics: Metrics): NonNullable<RecordDeps["onCommit"]> {
  const stored = metrics.counter("gatehouse_audit_entries_stored_total", "Entries committed.");
  const repeated = metrics.counter(
    "gatehouse_audit_entries_repeated_total",
    "Entries sent again although they were committed.",
  );
  const seconds = metrics.histogram("gatehouse_audit_commit_seconds", "Duration of a group commit.");
  return (commit) => {
    stored.inc(commit.entries);
    repeated.inc(commit.duplicates);
    seconds.observe(commit.seconds);
  };
}
