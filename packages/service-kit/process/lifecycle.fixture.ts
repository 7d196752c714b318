/** A process that serves until its parent has ended. */
import { pino } from "pino";
import { Lifecycle } from "./lifecycle.ts";

const lifecycle = new Lifecycle({
  logger: pino({ level: "silent" }),
  drainDelayMs: 0,
  shutdownTimeoutMs: 1_000,
});
setInterval(() => {}, 1_000);
lifecycle.ready();
process.send?.("ready");
