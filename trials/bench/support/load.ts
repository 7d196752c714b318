/**
 * A bounded load in a process of its own, or a bare upstream: `node trials/bench/support/load.ts upstream`, or
 * `node trials/bench/support/load.ts send <port> <host> <path> <requests> <connections> <token>`.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Pool } from "undici";

const BODY = Buffer.from(
  JSON.stringify({ payments: Array.from({ length: 8 }, (_, id) => ({ id, amount: 1250 })) }),
);

const [mode, port = "", host = "", path = "", requests = "0", connections = "1", token = ""] =
  process.argv.slice(2);
if (mode === "upstream") serve();
else await send();

function serve(): void {
  const server = createServer((_request, response) => {
    response.writeHead(200, { "content-type": "application/json", "content-length": BODY.length });
    response.end(BODY);
  });
  server.keepAliveTimeout = 60_000;
  server.listen(0, "127.0.0.1", () => process.send?.((server.address() as AddressInfo).port));
  process.on("disconnect", () => process.exit());
}

async function send(): Promise<void> {
  const pool = new Pool(`http://127.0.0.1:${port}`, { connections: Number(connections), pipelining: 1 });
  const headers = {
    host,
    authorization: `Bearer ${token}`,
    accept: "application/json",
    "user-agent": "trials/bench/1.0",
    "accept-encoding": "gzip",
  };
  let left = Number(requests);
  await Promise.all(
    Array.from({ length: Number(connections) }, async () => {
      while (left > 0) {
        left -= 1;
        const { statusCode, body } = await pool.request({ method: "GET", path, headers });
        await body.dump();
        if (statusCode !== 200) throw new Error(`answered ${statusCode}`);
      }
    }),
  );
  await pool.close();
}
