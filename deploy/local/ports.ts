import { once } from "node:events";
import { createServer } from "node:net";
import { errorCode, errorText, LaunchError } from "./launch-error.ts";
import { untilNone } from "./poll.ts";

/** Sockets of processes which have just ended may still be closing. */
const GRACE_MS = 1_000;

/** A port somebody is about to listen on and the variable that moves it. */
export interface NamedPort {
  name: string;
  port: number;
}

/**
 * Makes sure that all ports are free on 127.0.0.1.
 *
 * @throws {LaunchError} with one line for each port which is not free, naming it and its variable.
 */
export async function requireFreePorts(ports: readonly NamedPort[]): Promise<void> {
  const problems = await untilNone(async () => {
    const found = (await Promise.all(ports.map(portProblem))).filter((problem) => problem !== undefined);
    return found.length === 0 ? undefined : found.join("\n");
  }, GRACE_MS);
  if (problems !== undefined) throw new LaunchError(problems);
}

async function portProblem({ name, port }: NamedPort): Promise<string | undefined> {
  const server = createServer().listen({ host: "127.0.0.1", port, exclusive: true });
  try {
    await once(server, "listening");
  } catch (error) {
    const problem = errorCode(error) === "EADDRINUSE" ? "is taken" : `cannot be used (${errorText(error)})`;
    return `Port ${port} ${problem}: free it, or set ${name} to another port.`;
  }
  server.close();
  await once(server, "close");
  return undefined;
}
