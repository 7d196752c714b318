import { once } from "node:events";
import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { errorCode, errorText, LaunchError } from "./launch-error.ts";

const RETRY_MS = 100;

/** A port somebody is about to listen on and the variable that moves it. */
export interface NamedPort {
  name: string;
  port: number;
}

/**
 * Makes sure that all ports are free on 127.0.0.1.
 *
 * @param graceMs how long to wait for ports to become free: processes of a killed launcher need a moment to end.
 * @throws {LaunchError} with one line for each port which is not free, naming it and its variable.
 */
export async function requireFreePorts(ports: readonly NamedPort[], graceMs: number): Promise<void> {
  const deadline = performance.now() + graceMs;
  for (;;) {
    const problems = (await Promise.all(ports.map(portProblem))).filter((problem) => problem !== undefined);
    if (problems.length === 0) return;
    if (performance.now() > deadline) throw new LaunchError(problems.join("\n"));
    await sleep(RETRY_MS);
  }
}

async function portProblem({ name, port }: NamedPort): Promise<string | undefined> {
  const server = createServer();
  try {
    server.listen({ host: "127.0.0.1", port, exclusive: true });
    await once(server, "listening");
  } catch (error) {
    if (errorCode(error) === "EADDRINUSE")
      return `Port ${port} is taken: free it, or set ${name} to another port.`;
    return `Port ${port} cannot be used (${errorText(error)}): set ${name} to another port.`;
  }
  server.close();
  await once(server, "close");
  return undefined;
}
