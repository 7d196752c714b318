/**
 * Refreshes a second against the bare SQL of one (begin, lock the row, update it, commit), on the same PostgreSQL with
 * the same number of connections, in the same run.
 *
 *   npm run trial -- refresh
 */
import { randomUUID } from "node:crypto";
import postgres from "postgres";
import { logIn, startTokenReplica } from "#tests/support/system/token-service.ts";
import { refreshSession } from "#token-service/sessions/refresh-session.ts";
import { quantile, runMany, startWorkbench } from "./support/workbench.ts";

const SESSIONS = 64;
const REFRESHES = 2_000;
const IN_PARALLEL = 16;
const ROUNDS = 5;

const workbench = await startWorkbench();
const sql = await workbench.connect("token-service");
const driver = postgres({ ...(await workbench.login("token-service")), max: 10, onnotice: () => undefined });
const replica = await startTokenReplica(sql);
const origin = { ip: "192.0.2.1", userAgent: "bench", requestId: "", traceId: "" };
const leaves: { sessionId: string; refreshToken: string }[] = [];
for (let index = 0; index < SESSIONS; index += 1) leaves.push(await logIn(replica, randomUUID()));

async function refresh(index: number): Promise<void> {
  const leaf = leaves[index % SESSIONS];
  if (leaf === undefined) throw new Error("no session");
  leaf.refreshToken = (await refreshSession(replica.deps, leaf.refreshToken, origin)).refreshToken;
}

async function bare(index: number): Promise<void> {
  const id = leaves[index % SESSIONS]?.sessionId ?? "";
  await driver.begin(async (tx) => {
    await tx`select * from sessions where id = ${id} for update`;
    await tx`update sessions set last_used_at = ${new Date()}, rotated_at = rotated_at, ip = ${origin.ip} where id = ${id}`;
  });
}

const rates = { refresh: [] as number[], bare: [] as number[] };
for (let round = -1; round < ROUNDS; round += 1) {
  const bareS = await runMany(REFRESHES, IN_PARALLEL, bare);
  const refreshS = await runMany(REFRESHES, IN_PARALLEL, refresh);
  if (round < 0) continue;
  rates.bare.push(REFRESHES / bareS);
  rates.refresh.push(REFRESHES / refreshS);
}
console.log(`bare SQL transaction: ${quantile(rates.bare, 0.5).toFixed(0)}/s`);
console.log(`refresh: ${quantile(rates.refresh, 0.5).toFixed(0)}/s`);
const ratios = rates.refresh.map((value, index) => value / (rates.bare[index] ?? Number.NaN));
console.log(`ratio, median of ${ROUNDS} rounds: ${quantile(ratios, 0.5).toFixed(2)} (aim: at least 0.7)`);
replica.stop();
await Promise.all([sql.end(), driver.end()]);
await workbench.stop();
