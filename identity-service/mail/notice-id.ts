import { v5 as uuidv5 } from "uuid";

/** Arbitrary; the same in every version. */
const NAMESPACE = "6a1c7a52-3c6e-4f0e-9d44-5f6b5d1a7a10";
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** For at most one mail an hour. */
export function noticeId(template: string, userId: string, now: Date): string {
  return uuidv5(`${template} ${userId} ${Math.floor(now.getTime() / HOUR_MS)}`, NAMESPACE);
}

/** For at most one mail a UTC day. */
export function dailyNoticeId(template: string, userId: string, now: Date): string {
  return uuidv5(`${template} ${userId} day ${Math.floor(now.getTime() / DAY_MS)}`, NAMESPACE);
}
