/**
 * A load in a process of its own for machines without wrk, or a bare upstream: `node trials/bench/support/load.ts upstream`,
 * or `… send <url> <file of requests> <seconds> <connections> <sent before>`, which prints what `requests.lua` prints.
 */
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Pool } from "undici";

const BODY = Buffer.from(
  JSON.stringify({ payments: Array.from({ length: 8 }, (_, id) => ({ id, amount: 1250 })) }),
);

const [mode, url = "", file = "", seconds = "", connections = "", sent = ""] = process.argv.slice(2);
if (mode === "upstream") serve();
else console.log(JSON.stringify(await send()));

function serve(): void {
  const server = createServer((request, response) => {
    request.resume().on("end", () => {
      response.writeHead(200, { "content-type": "application/json", "content-length": BODY.length });
      response.end(BODY);
    });
  });
  server.keepAliveTimeout = 60_000;
  server.listen(0, "127.0.0.1", () => process.send?.((server.address() as AddressInfo).port));
  process.on("disconnect", () => process.exit());
}

async function send(): Promise<{ requests: number; bad: number; seconds: number }> {
  const lines = readFileSync(file, "utf8").trimEnd().split("\n");
  const prepared = lines.map((line) => {
    const [method = "", path = "", authorization = "", type = "", body = ""] = line.split("\t");
    const headers = {
      authorization,
      accept: "application/json",
      "accept-encoding": "gzip",
      "user-agent": "gatehouse-bench/1.0",
      ...(type !== "" && { "content-type": type }),
    };
    return { method, path, headers, ...(body !== "" && { body }) };
  });
  const pool = new Pool(url, { connections: Number(connections), pipelining: 1 });
  const startedMs = performance.now();
  const endMs = startedMs + Number(seconds) * 1_000;
  let requests = 0;
  let bad = 0;
  const connection = async () => {
    while (performance.now() < endMs) {
      const next = prepared[(Number(sent) + requests) % prepared.length];
      requests += 1;
      if (next === undefined) throw new Error(`${file} is empty`);
      const { statusCode, body } = await pool.request(next);
      await body.dump();
      if (statusCode > 399) bad += 1;
    }
  };
  await Promise.all(Array.from({ length: Number(connections) }, connection));
  await pool.close();
  return { requests, bad, seconds: (performance.now() - startedMs) / 1_000 };
}
