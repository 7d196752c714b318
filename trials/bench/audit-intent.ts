/**
 * What the audit log costs a proxied call: a POST, which waits for its intent before the upstream is asked and for its
 * outcome before the answer is complete, against a GET of the same size over the same way; at a steady rate, on real
 * processes and a durable PostgreSQL. The intent alone is what a POST needs longer than a GET until the upstream has it.
 * Then the same with audit-service killed: the spool.
 *
 *   npm run trial -- audit-intent
 */
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Pool } from "undici";
import { apiClient } from "#tests/support/people/api-client.ts";
import { type CrashingSystem, startCrashingSystem } from "#tests/support/system/crashing-system.ts";
import { quantile } from "./support/workbench.ts";

const CALLS_PER_SECOND = 200;
const SECONDS = 10;
const WARM_UP_CALLS = 400;
const ROUNDS = 3;

/** When the upstream was asked, by the call's number; by the clock of `call`, which is in this process too. */
const askedMs = new Map<string, number>();
const upstream = createServer((request, response) => {
  askedMs.set(
    new URL(request.url ?? "", "http://upstream").searchParams.get("call") ?? "",
    performance.now(),
  );
  request.resume().on("end", () => response.writeHead(200, { "content-type": "text/plain" }).end("done"));
});
upstream.listen(0, "127.0.0.1");
await once(upstream, "listening");
const folder = await mkdtemp(join(tmpdir(), "gatehouse-bench-"));
const routes = join(folder, "routes.yaml");
const origin = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`;
const methods = "{ GET: { roles: [USER] }, POST: { roles: [USER], action: payments.create } }";
await writeFile(routes, `routes:\n  - { prefix: /payments, upstream: "${origin}", methods: ${methods} }\n`);

const system = await startCrashingSystem(({ name }) => (name === "gateway" ? { ROUTES_FILE: routes } : {}));
const { accessToken } = await apiClient(system.url).newUser();
const pool = new Pool(system.url, { connections: 64 });

/** In milliseconds since the call began. */
interface Timing {
  untilAsked: number;
  untilAnswered: number;
}

let calls = 0;

async function call(method: "GET" | "POST"): Promise<Timing> {
  calls += 1;
  const number = String(calls);
  const startedMs = performance.now();
  const { statusCode, body } = await pool.request({
    path: `/payments?call=${number}`,
    method,
    headers: { authorization: `Bearer ${accessToken}`, "content-type": "application/json" },
    ...(method === "POST" && { body: '{"amount":1250}' }),
  });
  await body.dump();
  if (statusCode !== 200) throw new Error(`${method}: ${statusCode}`);
  const untilAsked = (askedMs.get(number) ?? Number.NaN) - startedMs;
  askedMs.delete(number);
  return { untilAsked, untilAnswered: performance.now() - startedMs };
}

/** Calls at a steady rate, whether or not the ones before have been answered. */
async function atSteadyRate(method: "GET" | "POST", times: number): Promise<Timing[]> {
  const startedMs = performance.now();
  const running: Promise<Timing>[] = [];
  for (let index = 0; index < times; index += 1) {
    const waitMs = startedMs + (index * 1_000) / CALLS_PER_SECOND - performance.now();
    if (waitMs > 0) await sleep(waitMs);
    running.push(call(method));
  }
  return Promise.all(running);
}

const line = (name: string, values: readonly number[]) =>
  console.log(
    `${name}: p50 ${quantile(values, 0.5).toFixed(2)} ms, p99 ${quantile(values, 0.99).toFixed(2)} ms, worst ${Math.max(...values).toFixed(1)} ms`,
  );

async function compare(name: string): Promise<void> {
  const [gets, posts]: [Timing[], Timing[]] = [[], []];
  await atSteadyRate("POST", WARM_UP_CALLS);
  const before = await durableSeconds(system);
  for (let round = 0; round < ROUNDS; round += 1) {
    gets.push(...(await atSteadyRate("GET", (CALLS_PER_SECOND * SECONDS) / ROUNDS)));
    posts.push(...(await atSteadyRate("POST", (CALLS_PER_SECOND * SECONDS) / ROUNDS)));
  }
  const after = await durableSeconds(system);
  console.log(`${name}, ${CALLS_PER_SECOND} calls/s:`);
  for (const [until, what] of [
    ["untilAsked", "until the upstream is asked (intent)"],
    ["untilAnswered", "until the answer is complete (intent and outcome)"],
  ] as const) {
    const [ofGets, ofPosts] = [gets.map((each) => each[until]), posts.map((each) => each[until])];
    console.log(`  ${what}`);
    line("    GET (no entry)", ofGets);
    line("    POST", ofPosts);
    const added = (share: number) => (quantile(ofPosts, share) - quantile(ofGets, share)).toFixed(2);
    console.log(`    added: p50 ${added(0.5)} ms, p99 ${added(0.99)} ms`);
  }
  const meanMs = ((after.sum - before.sum) / (after.count - before.count)) * 1_000;
  console.log(`  one entry durable, mean by the gateway's own clock: ${meanMs.toFixed(2)} ms`);
}

async function durableSeconds(running: CrashingSystem): Promise<{ sum: number; count: number }> {
  const metrics = await running.metrics();
  const value = (suffix: string) =>
    Number(
      new RegExp(`^gatehouse_audit_durable_seconds_${suffix}\\{[^}]*\\} (\\S+)$`, "m").exec(metrics)?.[1],
    );
  return { sum: value("sum"), count: value("count") };
}

await compare("audit-service there (aim for the intent: p50 < 3 ms, p99 < 15 ms)");
await system.kill("audit-service");
await sleep(500);
await compare("audit-service away, entries to the spool");
await pool.close();
await system.remove();
upstream.close();
await rm(folder, { recursive: true, force: true });
