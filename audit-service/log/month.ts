/** Months since year 0, UTC: a partition of the log each. */
export function monthOf(time: Date): number {
  return time.getUTCFullYear() * 12 + time.getUTCMonth();
}

/** When a month of `monthOf` begins. */
export function startOfMonth(month: number): Date {
  return new Date(Date.UTC(Math.floor(month / 12), month % 12));
}
