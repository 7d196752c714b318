import type { Bench } from "../support/bench.ts";

/** What one round finds. */
export interface Sample {
  /** By the names of the figure's quantities. */
  values: Readonly<Record<string, number>>;
  /** By process, in the unit of the first quantity. */
  parts?: Readonly<Record<string, number>>;
}

/** What is measured in turns with others. */
export interface Subject {
  name: string;
  /** Ours are compared with every other one, of the same version or of none. */
  isOurs: boolean;
  /** The commit, or `this`. */
  version?: string;
  sample(): Promise<Sample>;
}

export interface Aim {
  atMost?: number;
  atLeast?: number;
  /** Part of the name of what ours is divided by. Absent: the aim is about ours itself. */
  of?: string;
}

export interface Quantity {
  /** Empty if the figure has one only. */
  name: string;
  unit: string;
  aims: readonly Aim[];
}

export interface Figure {
  name: string;
  shows: string;
  quantities: readonly Quantity[];
  /** So many rounds whatever was asked for, and none that warms up: each starts what it measures anew, or would find the same. */
  coldRounds?: number;
  /** Makes everything ready and warm. What it says is missing is not measured, which is no failure. */
  prepare(
    bench: Bench,
  ): Promise<{ subjects: readonly Subject[]; missing?: readonly string[]; end?(): Promise<unknown> }>;
}
