import { once } from "node:events";
import { createServer } from "node:net";

/** Below the ports that the system gives to outgoing connections: one of those could take a port between look and use. */
const FIRST_PORT = 10_000;
const BLOCK_PORTS = 400;
const BLOCKS = 55;

/** Each worker of a test run has a block of its own, so that no other is given the same port before it is in use. */
const block = (process.ppid * 13 + Number(process.env.VITEST_POOL_ID ?? 0)) % BLOCKS;
let given = 0;

/** A port of 127.0.0.1 which is free now, and which nobody else here is told of. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < BLOCK_PORTS; tries += 1) {
    const port = FIRST_PORT + block * BLOCK_PORTS + (given % BLOCK_PORTS);
    given += 1;
    if (await isFree(port)) return port;
  }
  throw new Error("no port is free");
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    server.listen({ host: "127.0.0.1", port, exclusive: true });
    await once(server, "listening");
  } catch {
    return false;
  }
  server.close();
  await once(server, "close");
  return true;
}
