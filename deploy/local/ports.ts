import { once } from "node:events";
import { createServer } from "node:net";
import { errorCode, errorText, LaunchError } from "./launch-error.ts";
import { untilNone } from "./poll.ts";

/** Sockets of ended processes may still be closing. */
const GRACE_MS = 1_000;

export interface NamedPort {
  /** Variable that sets the port. */
  name: string;
  port: number;
}

/** Nothing but a browser uses the second one: what listens there would answer for us at `localhost`. */
const LOOPBACK = ["127.0.0.1", "::1"];

/** @throws {LaunchError} with a line for each port that is in use. */
export async function requireFreePorts(ports: readonly NamedPort[]): Promise<void> {
  const problems = await untilNone(async () => {
    const found = (await Promise.all(ports.map(portProblem))).filter((problem) => problem !== undefined);
    return found.length === 0 ? undefined : found.join("\n");
  }, GRACE_MS);
  if (problems !== undefined) throw new LaunchError(problems);
}

async function portProblem({ name, port }: NamedPort): Promise<string | undefined> {
  for (const host of LOOPBACK) {
    const server = createServer().listen({ host, port, exclusive: true });
    try {
      await once(server, "listening");
    } catch (error) {
      const isUsed = errorCode(error) === "EADDRINUSE";
      // Without IPv6 nothing can listen there.
      if (!isUsed && host === "::1") return undefined;
      const problem = isUsed ? "is in use" : `cannot be used (${errorText(error)})`;
      return `Port ${port} ${problem}: free it, or set ${name} to another port.`;
    }
    server.close();
    await once(server, "close");
  }
  return undefined;
}
