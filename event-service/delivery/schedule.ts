/** Pauses of one event after its failures (Standard Webhooks 1.0): some three days. Then it is given up. */
const EVENT_PAUSES_S = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400] as const;
/** So many failures in a row are the endpoint's. */
export const FAILURES_OF_ENDPOINT = 5;
const FIRST_REST_MS = 5_000;
const MAX_REST_MS = 300_000;
const GIVE_UP_MS = 3 * 86_400_000;
/** For an endpoint that is deleted instead of paused. */
const GIVE_UP_TEMPORARY_MS = 600_000;

/** @param random 0 to 1: the events of one outage do not come back together. @returns undefined: no further attempt. */
export function nextAttemptAt(attempts: number, now: Date, random: number): Date | undefined {
  const pauseS = EVENT_PAUSES_S[attempts - 1];
  return pauseS === undefined ? undefined : new Date(now.getTime() + pauseS * 1_000 * (0.9 + random * 0.2));
}

/** How long an endpoint is left alone. @param failures in a row. */
export function restMs(failures: number): number {
  if (failures < FAILURES_OF_ENDPOINT) return 0;
  return Math.min(FIRST_REST_MS * 2 ** Math.min(failures - FAILURES_OF_ENDPOINT, 10), MAX_REST_MS);
}

export function isGivenUp(failingSince: Date, isTemporary: boolean, now: Date): boolean {
  return now.getTime() - failingSince.getTime() >= (isTemporary ? GIVE_UP_TEMPORARY_MS : GIVE_UP_MS);
}
