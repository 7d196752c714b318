/** Upper bounds of the counts of calls by their time; what took longer is counted last. */
export const BUCKETS_MS = [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 15_000] as const;

/** The load is on. */
interface ReadyLine {
  ready: true;
  rate: number;
  users: number;
}

/** Counts of one second. `reconnected` counts since the start. */
export interface SecondLine {
  done: number;
  open: number;
  reconnected: number;
  slowestMs: number;
  buckets: readonly number[];
}

export interface FailureLine {
  failed: string;
  why: string;
  ms: number;
  /** When the answer was there. */
  at: string;
}

export type LoadLine = ReadyLine | SecondLine | FailureLine;

/** Text that is not of the load, such as a warning of Node.js, is left out. */
export function parseLoadLines(text: string): LoadLine[] {
  return text.split("\n").flatMap((line) => {
    try {
      const value = JSON.parse(line);
      return typeof value === "object" && value !== null ? [value as LoadLine] : [];
    } catch {
      return [];
    }
  });
}
