import { once } from "node:events";
import { createServer } from "node:net";

/** Below the ports that the system gives to outgoing connections: one of those could take a port between look and use. */
const FIRST_PORT = 10_000;
const BLOCK_PORTS = 400;
const BLOCKS = 55;

/**
 * Each test process owns a block of ports, so that no other process can be given the same port before it is in use. The
 * process claims the block by listening on its first port until it ends. Test runs that happen side by side see each other.
 */
let ownBlock: Promise<number> | undefined;
let given = 0;

/** A port of 127.0.0.1 that is free now, and that no other test process is given. */
export async function freePort(): Promise<number> {
  ownBlock ??= claimBlock();
  const firstPort = (await ownBlock) + 1;
  for (let tries = 1; tries < BLOCK_PORTS; tries += 1) {
    const port = firstPort + (given % (BLOCK_PORTS - 1));
    given += 1;
    if (await isFree(port)) return port;
  }
  throw new Error("no port is free");
}

/** The first port of a block that nobody else has claimed. */
async function claimBlock(): Promise<number> {
  for (let tries = 0; tries < BLOCKS; tries += 1) {
    const firstPort = FIRST_PORT + ((process.pid + tries) % BLOCKS) * BLOCK_PORTS;
    const claim = createServer();
    try {
      claim.listen({ host: "127.0.0.1", port: firstPort, exclusive: true });
      await once(claim, "listening");
      claim.unref();
      return firstPort;
    } catch {
      claim.close();
    }
  }
  throw new Error("no block of test ports is free");
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
