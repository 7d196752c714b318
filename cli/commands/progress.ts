const WATCHED_EVERY_MS = 250;
const WRITTEN_EVERY_MS = 5_000;

export interface ProgressOptions {
  write: (text: string) => void;
  /** A terminal, on which one line is updated. */
  isWatched: boolean;
  isWanted: boolean;
  nowMs?: () => number;
}

export interface Progress {
  /** @param ofEntries 0 while unknown. */
  show(entries: number, ofEntries: number): void;
  end(): void;
}

/** Writes `1,234,567 of 5,000,000 entries (24 %), 98,765/s`. */
export function createProgress({
  write,
  isWatched,
  isWanted,
  nowMs = () => performance.now(),
}: ProgressOptions): Progress {
  const startedMs = nowMs();
  const everyMs = isWatched ? WATCHED_EVERY_MS : WRITTEN_EVERY_MS;
  let shownMs = startedMs;
  let width = 0;
  return {
    show(entries, ofEntries) {
      const now = nowMs();
      if (!(isWatched || isWanted) || now - shownMs < everyMs) return;
      shownMs = now;
      const rate = Math.round((entries * 1_000) / (now - startedMs)).toLocaleString("en");
      const share = ofEntries > 0 ? ` of ${ofEntries.toLocaleString("en")}` : "";
      const percent = ofEntries > 0 ? ` (${Math.floor((entries * 100) / ofEntries)} %)` : "";
      const text = `${entries.toLocaleString("en")}${share} entries${percent}, ${rate}/s`;
      write(isWatched ? `\r${text.padEnd(width)}` : `${text}\n`);
      width = text.length;
    },
    end() {
      if (isWatched && width > 0) write(`\r${" ".repeat(width)}\r`);
    },
  };
}
