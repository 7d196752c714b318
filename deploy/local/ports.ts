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

/** @throws {LaunchError} with a line for each port that is in use. */
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
    const problem = errorCode(error) === "EADDRINUSE" ? "is in use" : `cannot be used (${errorText(error)})`;
    return `Port ${port} ${problem}: free it, or set ${name} to another port.`;
  }
  server.close();
  await once(server, "close");
  return undefined;
}
