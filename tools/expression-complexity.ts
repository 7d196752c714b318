import { checkSync } from "recheck";

/** The checker counts the characters that it reads. Its limits in time would take a busy machine for a slow expression. */
const LIMITS = { timeout: 300_000, attackTimeout: null, incubationTimeout: null };

/** How the time of a regular expression grows with the text it reads: `linear`, or what the checker calls it. */
export function complexityOf({ source, flags }: { source: string; flags: string }): string {
  const verdict = checkSync(source, flags, LIMITS);
  if (verdict.status === "safe") return "linear";
  return verdict.status === "vulnerable" ? verdict.complexity.summary : `not known: ${verdict.error.kind}`;
}
