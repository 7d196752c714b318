import { openCheckpoint } from "./checkpoint.ts";
import { parseExportLine } from "./export-line.ts";
import type { SampleLog } from "./log.fixture.ts";
import type { Trust } from "./log-verification.ts";
import { parseVerifierKey } from "./signed-note.ts";
import type { Verdict } from "./verdict.ts";
import { verifyLog } from "./verify-log.ts";

export interface Trusting {
  checkpoints?: string[];
  isPartial?: boolean;
}

export interface Verifier {
  verify(lines: readonly unknown[], trust?: Trusting): Promise<Verdict>;
  verifyText(text: string | Buffer, trust?: Trusting): Promise<Verdict>;
}

export function verifierOf(log: SampleLog): Verifier {
  const keys = [parseVerifierKey(log.verifierKey)];
  const trusting = ({ checkpoints = [], isPartial = false }: Trusting): Trust => ({
    keys,
    checkpoints: checkpoints.map((note) => openCheckpoint(note, keys)),
    isPartial,
  });
  return {
    verify: (lines, trust = {}) =>
      verifyLog({ batches: inBatches([lines]), read: (line) => line, trust: trusting(trust) }),
    verifyText(text, trust = {}) {
      const lines = Buffer.from(text as string)
        .toString("latin1")
        .replace(/\n$/, "")
        .split("\n")
        .map((line) => Buffer.from(line, "latin1"));
      return verifyLog({ batches: inBatches([lines]), read: parseExportLine, trust: trusting(trust) });
    },
  };
}

export async function* inBatches<T>(batches: readonly T[]): AsyncGenerator<T> {
  yield* batches;
}
