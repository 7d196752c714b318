import type { Target } from "./target.ts";

/** One attack. It throws if the attack succeeds, and says in one line what was got. */
export interface AttackCase {
  name: string;
  run: (target: Target) => Promise<void>;
}

/** The running system lacks what this attack needs. */
export class NotPossible extends Error {
  override readonly name = "NotPossible";
}

/** @throws {Error} unless the promise holds. */
export function must(holds: boolean, otherwise: string): void {
  if (!holds) throw new Error(otherwise);
}
