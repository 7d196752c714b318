import { LOG_LEVELS } from "../config/config.ts";
import type { Logger } from "../telemetry/logger.ts";

const DEFAULT_MINUTES = 15;
const MAX_MINUTES = 24 * 60;

export interface LogLevelSwitch {
  /** @param minutes 1 to 1,440, by default 15. */
  set(level: string | null, minutes: string | null): { isChanged: boolean; message: string };
  /** `info`, or `debug until 2026-11-21T09:30:00.000Z, then info`. */
  describe(): string;
}

export function createLogLevelSwitch(logger: Pick<Logger, "level" | "info">): LogLevelSwitch {
  const configured = logger.level;
  let back: { timer: NodeJS.Timeout; at: Date } | undefined;

  function reset(): void {
    clearTimeout(back?.timer);
    back = undefined;
    logger.level = configured;
  }

  function describe(): string {
    return back === undefined
      ? logger.level
      : `${logger.level} until ${back.at.toISOString()}, then ${configured}`;
  }

  return {
    describe,
    set(level, minutes) {
      const count = minutes === null ? DEFAULT_MINUTES : Number(minutes);
      if (level === null || !(LOG_LEVELS as readonly string[]).includes(level)) {
        return { isChanged: false, message: `level must be one of ${LOG_LEVELS.join(", ")}` };
      }
      if (!Number.isInteger(count) || count < 1 || count > MAX_MINUTES) {
        return { isChanged: false, message: `minutes must be a whole number from 1 to ${MAX_MINUTES}` };
      }
      reset();
      if (level !== configured) {
        const ms = count * 60_000;
        back = { timer: setTimeout(reset, ms).unref(), at: new Date(Date.now() + ms) };
      }
      logger.info({ logLevel: level, configured }, "log level changed");
      logger.level = level;
      return { isChanged: true, message: describe() };
    },
  };
}
