/** A start that does nothing but report what it was asked for: `detached-start.test.ts`. */
import { once } from "node:events";
import { detachedStart, notifyStarter } from "./detached-start.ts";

const start = detachedStart(process.env);
if (start?.sets.includes("alone")) await once(process, "disconnect");
notifyStarter(JSON.stringify({ args: process.argv.slice(2), start, folder: process.cwd() }));
if (process.connected) await once(process, "disconnect");
