import { appendFile } from "node:fs/promises";
import { join } from "node:path";
import { untilNone } from "#deploy/local/poll.ts";
import { readLog, type System } from "../system/system.ts";

const TIMEOUT_MS = 60_000;

/** Adds to the routes file of a running system, and waits until the gateway uses them. */
export async function addRoutes(system: Pick<System, "home">, routes: string): Promise<void> {
  const uses = async () =>
    (await readLog(system, "gateway")).split("the routes file has changed and is in use").length;
  const before = await uses();
  await appendFile(join(system.home, "routes.yaml"), routes);
  const isUnused = async () => ((await uses()) > before ? undefined : true);
  if (await untilNone(isUnused, TIMEOUT_MS)) throw new Error("the added routes are not in use");
}
