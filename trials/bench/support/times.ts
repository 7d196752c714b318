import { quantile } from "./workbench.ts";

/**
 * Takes samples of every class in one random order: each is as likely to follow any class, so what the work before has
 * left behind in caches and queues falls on all alike.
 *
 * @param take one sample, in milliseconds; gets its number within the class.
 */
export async function sampleClasses<K extends string>(
  classes: readonly K[],
  samples: number,
  take: (name: K, index: number) => Promise<number>,
): Promise<Record<K, number[]>> {
  const order = classes
    .flatMap((name) => Array.from({ length: samples }, (_, index) => ({ name, index, key: Math.random() })))
    .sort((a, b) => a.key - b.key);
  const times = Object.fromEntries(classes.map((name) => [name, []])) as unknown as Record<K, number[]>;
  for (const { name, index } of order) times[name].push(await take(name, index));
  return times;
}

/** Prints what the times of each class show beside a reference class of the same run. */
export function printTimes<K extends string>(times: Record<K, readonly number[]>, reference: K): void {
  const referenceMs = quantile(times[reference], 0.5);
  console.log(
    `${reference}: median ${referenceMs.toFixed(3)} ms, ${times[reference].length} samples a class`,
  );
  for (const name of (Object.keys(times) as K[]).filter((each) => each !== reference)) {
    const difference = ((quantile(times[name], 0.5) / referenceMs - 1) * 100).toFixed(2);
    const area = auc(times[name], times[reference]).toFixed(3);
    console.log(`${name}: AUC ${area} (aim: 0.50 ± 0.02), median ${difference} % (aim: under 2 %)`);
  }
}

/** By ranks (Mann-Whitney), ties counting half. */
function auc(a: readonly number[], b: readonly number[]): number {
  const all = [...a.map((value) => ({ value, isA: true })), ...b.map((value) => ({ value, isA: false }))];
  all.sort((left, right) => left.value - right.value);
  let ranks = 0;
  for (let start = 0; start < all.length; ) {
    let end = start;
    while (end < all.length && all[end]?.value === all[start]?.value) end += 1;
    const rank = (start + 1 + end) / 2;
    for (const { isA } of all.slice(start, end)) ranks += isA ? rank : 0;
    start = end;
  }
  return (ranks - (a.length * (a.length + 1)) / 2) / (a.length * b.length);
}
