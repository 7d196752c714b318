import { boundedCache } from "#kit/values/bounded-cache.ts";

/** A record of each call would be an entry, which the follower reads, and so would never end. */
const RECORDED_MS = 10 * 60_000;
const MAX_FOLLOWINGS = 1_000;

/**
 * Records who reads the log from a place on: at once, then every ten minutes, and for each place before the recorded one.
 * So whatever was read is after the place in a record of the last ten minutes.
 * @param record if it throws, nothing may be read.
 */
export type RecordFollowing = (
  follower: Readonly<Record<string, string | undefined>>,
  after: number,
  record: () => Promise<void>,
) => Promise<void>;

/** Remembers in memory: each process records for itself. */
export function createFollowingRecorder(monotonicMs: () => number): RecordFollowing {
  const recorded = boundedCache<string, { atMs: number; after: number }>(MAX_FOLLOWINGS);
  return async (follower, after, record) => {
    const key = JSON.stringify(follower);
    const last = recorded.get(key);
    if (last !== undefined && monotonicMs() - last.atMs < RECORDED_MS && after >= last.after) return;
    await record();
    recorded.set(key, { atMs: monotonicMs(), after });
  };
}
