/**
 * What verified users do all the time, in a process of its own: first as many calls as answers come back, then calls at
 * a fixed rate, whose latency counts from the moment when each was due, so that a stalled server cannot slow its own
 * measurement down (coordinated omission). Prints one line of JSON, `SteadyFigures`.
 *
 *   node trials/bench/support/steady-load.ts <plan as JSON>
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Pool } from "undici";
import { quantile } from "./workbench.ts";

export interface SteadyPlan {
  origin: string;
  path: string;
  /** Each from its own address, as the proxy in front would report it. */
  callers: { token: string; address: string }[];
  connections: number;
  closedMs: number;
  ratePerS: number;
  fixedMs: number;
}

export interface SteadyFigures {
  throughputPerS: number;
  p50Ms: number;
  p99Ms: number;
  /** Number of answers by status, or by the code of the error. */
  answers: Record<string, number>;
}

const plan = JSON.parse(process.argv[2] ?? "") as SteadyPlan;
const pool = new Pool(plan.origin, { connections: plan.connections, pipelining: 1 });
const answers: SteadyFigures["answers"] = {};
let next = 0;

async function call(): Promise<void> {
  const caller = plan.callers[next++ % plan.callers.length];
  if (caller === undefined) throw new Error("no callers");
  const headers = { authorization: `Bearer ${caller.token}`, "x-forwarded-for": caller.address };
  const outcome = await pool
    .request({ method: "GET", path: plan.path, headers })
    .then(async ({ statusCode, body }) => {
      await body.dump();
      return String(statusCode);
    })
    .catch((error: { code?: string }) => error.code ?? "error");
  answers[outcome] = (answers[outcome] ?? 0) + 1;
}

async function closedLoop(): Promise<number> {
  const startedMs = performance.now();
  let count = 0;
  await Promise.all(
    Array.from({ length: plan.connections }, async () => {
      while (performance.now() - startedMs < plan.closedMs) {
        await call();
        count += 1;
      }
    }),
  );
  return (count / (performance.now() - startedMs)) * 1_000;
}

async function fixedRate(): Promise<number[]> {
  const startedMs = performance.now();
  const total = Math.floor((plan.ratePerS * plan.fixedMs) / 1_000);
  const latencies: number[] = [];
  const calls: Promise<void>[] = [];
  for (let index = 0; index < total; index += 1) {
    const dueMs = startedMs + (index * 1_000) / plan.ratePerS;
    const waitMs = dueMs - performance.now();
    if (waitMs > 0) await sleep(waitMs);
    calls.push(call().then(() => void latencies.push(performance.now() - dueMs)));
  }
  await Promise.all(calls);
  return latencies;
}

const throughputPerS = await closedLoop();
const latencies = await fixedRate();
await pool.close();
const figures: SteadyFigures = {
  throughputPerS,
  p50Ms: quantile(latencies, 0.5),
  p99Ms: quantile(latencies, 0.99),
  answers,
};
console.log(JSON.stringify(figures));
