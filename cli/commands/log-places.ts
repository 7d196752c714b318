import { UsageError } from "../usage-error.ts";
import { LOGS } from "./whole-number.ts";

interface LogPlace {
  log: number;
  sequence: number;
}

/** `17,1:40`: a number without a log is of log 0. @throws {UsageError} */
export function logPlaces(option: string, text: string): LogPlace[] {
  const places = text.split(",").map((place) => {
    const [, log = "0", sequence = ""] = /^(?:(\d+):)?(\d+)$/.exec(place) ?? [];
    return { log: Number(log), sequence: sequence === "" ? Number.NaN : Number(sequence) };
  });
  const isProper = places.every(({ log, sequence }) => log <= LOGS.max && Number.isSafeInteger(sequence));
  if (isProper && new Set(places.map(({ log }) => log)).size === places.length) return places;
  throw new UsageError(`--${option} must be a sequence, or sequences of several logs: 17,1:40`);
}
