import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createLogger } from "../telemetry/logger.ts";
import { createLogLevelSwitch } from "./log-level-switch.ts";

beforeEach(() => {
  vi.useFakeTimers({ now: Date.UTC(2026, 10, 21) });
});
afterEach(() => {
  vi.useRealTimers();
});

function quietLogger() {
  return createLogger("test", "info", { write: () => {} });
}

test("a level holds for its minutes; then the configured one is back", () => {
  const logger = quietLogger();
  const logLevel = createLogLevelSwitch(logger);

  expect(logLevel.set("debug", "5")).toEqual({
    isChanged: true,
    message: "debug until 2026-11-21T00:05:00.000Z, then info",
  });
  expect(logger.level).toBe("debug");
  vi.advanceTimersByTime(5 * 60_000 - 1);
  expect(logger.level).toBe("debug");
  vi.advanceTimersByTime(1);
  expect(logger.level).toBe("info");
  expect(logLevel.describe()).toBe("info");
});

test("the last change counts: an earlier one's end does not cut it short", () => {
  const logger = quietLogger();
  const logLevel = createLogLevelSwitch(logger);

  logLevel.set("debug", "5");
  logLevel.set("trace", "60");
  vi.advanceTimersByTime(6 * 60_000);
  expect(logger.level).toBe("trace");
  logLevel.set("info", null);
  expect(logLevel.describe()).toBe("info");
});

test.each([
  { level: null, minutes: null },
  { level: "loud", minutes: null },
  { level: "debug", minutes: "0" },
  { level: "debug", minutes: "1441" },
  { level: "debug", minutes: "1.5" },
  { level: "debug", minutes: "soon" },
])("level $level for $minutes minutes is refused and changes nothing", ({ level, minutes }) => {
  const logger = quietLogger();
  const answered = createLogLevelSwitch(logger).set(level, minutes);
  expect(answered.isChanged).toBe(false);
  expect(logger.level).toBe("info");
});
