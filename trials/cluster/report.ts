import { BUCKETS_MS, type FailureLine, type LoadLine, type SecondLine } from "./load-lines.ts";

/** What the load saw while one disturbance lasted. */
export interface Result {
  name: string;
  seconds: number;
  calls: number;
  failures: readonly FailureLine[];
  /** Connections that were refused and made elsewhere. */
  reconnected: number;
  /** Upper bounds. */
  p50Ms: number;
  p99Ms: number;
  slowestMs: number;
  /** What the disturbance itself has to say; `problem` if it did not come to its end. */
  note: string;
  problem?: string;
}

export function resultOf(
  { name, seconds, note, problem }: { name: string; seconds: number; note: string; problem?: string },
  lines: readonly LoadLine[],
  reconnectedBefore: number,
): Result {
  const each = lines.filter((line): line is SecondLine => "done" in line);
  const buckets = BUCKETS_MS.map((_, index) => total(each.map((line) => line.buckets[index] ?? 0)));
  const slower = total(each.map((line) => line.buckets[BUCKETS_MS.length] ?? 0));
  const slowestMs = Math.max(0, ...each.map((line) => line.slowestMs));
  const bound = (share: number) => boundOf([...buckets, slower], share, slowestMs);
  return {
    name,
    seconds,
    calls: total(each.map(({ done }) => done)),
    failures: lines.filter((line): line is FailureLine => "failed" in line),
    reconnected: (each.at(-1)?.reconnected ?? reconnectedBefore) - reconnectedBefore,
    p50Ms: bound(0.5),
    p99Ms: bound(0.99),
    slowestMs,
    note,
    ...(problem !== undefined && { problem }),
  };
}

function total(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0);
}

/** The bound below which `share` of the calls were, and never above the slowest. */
function boundOf(buckets: readonly number[], share: number, slowestMs: number): number {
  const wanted = total(buckets) * share;
  let sum = 0;
  for (const [index, count] of buckets.entries()) {
    sum += count;
    if (sum >= wanted) return Math.min(BUCKETS_MS[index] ?? slowestMs, slowestMs);
  }
  return slowestMs;
}

/** A trial without calls has shown nothing. */
export function hasFailed({ calls, failures, problem }: Result): boolean {
  return calls === 0 || failures.length > 0 || problem !== undefined;
}

/** In Markdown, for docs/operations. */
export function table(results: readonly Result[]): string {
  const rows = results.map(
    ({ name, seconds, calls, failures, reconnected, p50Ms, p99Ms, slowestMs, note }) => [
      name,
      seconds.toFixed(0),
      calls.toLocaleString("en"),
      failures.length === 0 ? "0" : `**${failures.length}**`,
      String(reconnected),
      `${p50Ms} / ${p99Ms} / ${slowestMs}`,
      note,
    ],
  );
  const head = ["Disturbance", "s", "Calls", "Failed", "Connected again", "p50 / p99 / slowest, ms", "Seen"];
  return [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

/** Failures of one kind in one line, the most frequent first. */
export function failureSummary({ failures }: Result): string[] {
  const kinds = Map.groupBy(failures, ({ failed, why }) => `${failed}: ${why}`);
  return [...kinds]
    .sort(([, one], [, other]) => other.length - one.length)
    .map(([kind, all]) => `${all.length} × ${kind}, ${all[0]?.at} to ${all.at(-1)?.at}`);
}
