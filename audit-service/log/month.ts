/** Months since year 0 in UTC. */
export function monthOf(time: Date): number {
  return time.getUTCFullYear() * 12 + time.getUTCMonth();
}

export function startOfMonth(month: number): Date {
  return new Date(Date.UTC(Math.floor(month / 12), month % 12));
}
