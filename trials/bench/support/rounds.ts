import type { Sample, Subject } from "../figures/figure.ts";
import type { Taken } from "./report.ts";

/**
 * Takes a sample of each subject in turn, `rounds` times; every other round in reverse, so that what the machine does
 * meanwhile falls on all alike. A round before that warms up and is thrown away, unless it `isCold`.
 */
export async function takeRounds(
  subjects: readonly Subject[],
  { rounds, isCold }: { rounds: number; isCold: boolean },
  log: (text: string) => void,
): Promise<Taken> {
  const taken = new Map(subjects.map((subject) => [subject, [] as Sample[]]));
  for (let round = isCold ? 0 : -1; round < rounds; round += 1) {
    for (const subject of round % 2 === 0 ? subjects : subjects.toReversed()) {
      const sample = await subject.sample();
      if (round < 0) continue;
      taken.get(subject)?.push(sample);
      log(`round ${round + 1}, ${subject.name}: ${JSON.stringify(sample.values)}`);
    }
  }
  return taken;
}
