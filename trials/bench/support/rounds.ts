import type { Sample, Subject } from "../figures/figure.ts";
import type { Taken } from "./report.ts";

/** A program that is new compiles what it runs often, which takes longer on a busy machine. */
const MOST_WARM_UPS = 12;
/** Of the least value before. */
const STILL_FALLING = 0.95;
/** Samples that are no cheaper than one before them: a compiler pauses, too. */
const ENOUGH = 2;

/**
 * Takes a sample of each subject in turn, `rounds` times; every other round in reverse, so that what the machine does
 * meanwhile falls on all alike. Before that each is sampled until its cost falls no more, unless it `isCold`.
 */
export async function takeRounds(
  subjects: readonly Subject[],
  { rounds, isCold }: { rounds: number; isCold: boolean },
  log: (text: string) => void,
): Promise<Taken> {
  const taken = new Map(subjects.map((subject) => [subject, [] as Sample[]]));
  if (!isCold) for (const subject of subjects) await warmUp(subject, log);
  for (let round = 0; round < rounds; round += 1) {
    for (const subject of round % 2 === 0 ? subjects : subjects.toReversed()) {
      const sample = await subject.sample();
      taken.get(subject)?.push(sample);
      log(`round ${round + 1}, ${subject.name}: ${JSON.stringify(sample.values)}`);
    }
  }
  return taken;
}

/** Samples it until its cost falls no more. */
export async function warmUp({ name, sample }: Subject, log: (text: string) => void): Promise<void> {
  let least = Number.POSITIVE_INFINITY;
  let steady = 0;
  for (let times = 1; times <= MOST_WARM_UPS && steady < ENOUGH; times += 1) {
    const [value = 0] = Object.values((await sample()).values);
    steady = value > least * STILL_FALLING ? steady + 1 : 0;
    least = Math.min(least, value);
  }
  if (steady < ENOUGH) log(`${name} still became cheaper after ${MOST_WARM_UPS} samples`);
}
