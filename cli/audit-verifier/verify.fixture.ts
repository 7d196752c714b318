import { openLogCheckpoint } from "./checkpoint.ts";
import { parseExportLine } from "./export-line.ts";
import type { SampleLog } from "./log.fixture.ts";
import type { Trust } from "./logs-verification.ts";
import { parseVerifierKey } from "./signed-note.ts";
import type { LogsVerdict, Verdict } from "./verdict.ts";
import { verifyLogs } from "./verify-logs.ts";

export interface Trusting {
  checkpoints?: string[];
  isPartial?: boolean;
  isWhole?: boolean;
}

export interface Verifier {
  verify(lines: readonly unknown[], trust?: Trusting): Promise<Verdict>;
  verifyText(text: string | Buffer, trust?: Trusting): Promise<Verdict>;
  /** The verifier is of log 0, and its file has several logs. */
  verifyAll(lines: readonly unknown[], trust?: Trusting): Promise<LogsVerdict>;
}

export function verifierOf(log: SampleLog): Verifier {
  const keys = [parseVerifierKey(log.verifierKey)];
  const trusting = ({ checkpoints = [], isPartial = false, isWhole = false }: Trusting): Trust => ({
    keys,
    checkpoints: checkpoints.map((note) => openLogCheckpoint(note, keys)),
    isPartial,
    isWhole,
  });
  const verifyAll = (lines: readonly unknown[], trust: Trusting = {}) =>
    verifyLogs({ batches: inBatches([lines]), read: (line) => line, trust: trusting(trust) });
  return {
    verify: async (lines, trust) => only(await verifyAll(lines, trust)),
    verifyAll,
    async verifyText(text, trust = {}) {
      const lines = Buffer.from(text as string)
        .toString("latin1")
        .replace(/\n$/, "")
        .split("\n")
        .map((line) => Buffer.from(line, "latin1"));
      return only(
        await verifyLogs({ batches: inBatches([lines]), read: parseExportLine, trust: trusting(trust) }),
      );
    },
  };
}

/** The verdict of one log is that of the file. */
function only({ result, logs: [verdict, ...others] }: LogsVerdict): Verdict {
  if (verdict?.result !== result || others.length > 0) throw new Error("not the verdict of one log");
  return verdict;
}

export async function* inBatches<T>(batches: readonly T[]): AsyncGenerator<T> {
  yield* batches;
}
