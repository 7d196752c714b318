import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { databaseOfSystem } from "#tests/support/database/system-database.ts";
import { type ApiClient, apiClient } from "#tests/support/people/api-client.ts";
import { recomputedLog } from "#tests/support/system/audit-sequencer.ts";
import { type Replica, startReplica } from "#tests/support/system/replicas.ts";
import { type System, startSystem } from "#tests/support/system/system.ts";

/** The session of a stopped sequencer ends after 3 s; the rest is for slow machines. */
const TAKEOVER_TIMEOUT_MS = 60_000;

let system: System;
let replicas: Replica[];
let gateways: Replica[];
let apis: ApiClient[];

/** Two more audit-services beside the launcher's own, each with a gateway that knows no other. */
beforeAll(async () => {
  system = await startSystem();
  replicas = await Promise.all([0, 1].map(() => startReplica(system, "audit-service")));
  gateways = await Promise.all(
    replicas.map(({ address }) => startReplica(system, "gateway", { AUDIT_SERVICE_ADDRESS: address })),
  );
  apis = gateways.map(({ address }) => apiClient(`http://${address}`));
});

afterAll(async () => {
  for (const { child } of replicas ?? []) child.kill("SIGCONT");
  for (const each of [...(gateways ?? []), ...(replicas ?? [])]) await each.stop();
  await system?.remove();
});

const isSequencer = async (replica: Replica) =>
  /^gatehouse_audit_sequencer\{[^}]*\} 1$/m.test(await replica.metrics());

/** The sequencer's lock goes to one of the two: the launcher's own replica gives it up. */
async function untilOneOfTwoNumbers(): Promise<number> {
  await using database = await databaseOfSystem(system, "audit");
  let stopped = -1;
  const tryAgain = async () => {
    const [holder] = await Promise.all(
      replicas.map(async (replica, index) => ((await isSequencer(replica)) ? index : -1)),
    ).then((indexes) => indexes.filter((index) => index >= 0));
    if (holder !== undefined) stopped = holder;
    else
      await database.sql`
        select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and objid = 7031011 and granted`;
    return stopped;
  };
  await expect.poll(tryAgain, { timeout: 30_000, interval: 400 }).toBeGreaterThanOrEqual(0);
  return stopped;
}

test("a sequencer that is stopped is replaced, no call is refused meanwhile, and it does no harm when it goes on", async () => {
  const stopped = await untilOneOfTwoNumbers();
  const users = await Promise.all(apis.map((api) => api.newUser()));
  const statuses: number[] = [];
  let isDone = false;
  const load = apis.map(async (api, index) => {
    for (let amount = 1; !isDone; amount += 1) {
      const body = { amount, currency: "EUR", payee: "ACME Ltd", reference: `invoice ${amount}` };
      const token = users[index]?.accessToken ?? "";
      statuses.push((await api.post("/payments", body, { token })).status);
      await sleep(20);
    }
  });
  await using database = await databaseOfSystem(system, "audit");
  const { sql } = database;
  const size = async () => Number((await sql`select max(sequence) as size from leaves`)[0]?.size);
  const holder = async () =>
    (await sql`select pid from pg_locks where locktype = 'advisory' and objid = 7031011 and granted`)[0]?.pid;
  const grows = async () => {
    const before = await size();
    await expect.poll(size, { timeout: TAKEOVER_TIMEOUT_MS, interval: 50 }).toBeGreaterThan(before + 20);
  };
  await grows();

  const former = await holder();
  replicas[stopped]?.child.kill("SIGSTOP");
  await expect.poll(holder, { timeout: TAKEOVER_TIMEOUT_MS, interval: 50 }).not.toBe(former);
  await grows();
  replicas[stopped]?.child.kill("SIGCONT");
  const isStillSequencer = () => isSequencer(replicas[stopped] as Replica);
  await expect.poll(isStillSequencer, { timeout: TAKEOVER_TIMEOUT_MS }).toBe(false);
  await grows();
  isDone = true;
  await Promise.all(load);

  expect(new Set(statuses)).toEqual(new Set([201]));
  const payments = async () =>
    (
      await sql`
        select kind, count(distinct call_id)::int as calls, count(*)::int as entries
        from log_entries join leaves using (position) where action = 'payments.create' group by kind order by kind`
    ).map(({ kind, calls, entries }) => [kind, calls, entries]);
  const each = statuses.length;
  await expect.poll(payments).toEqual([
    ["intent", each, each],
    ["outcome", each, each],
  ]);
  const log = await recomputedLog(sql);
  expect(log.map(({ sequence }) => sequence)).toEqual(log.map((_, index) => index + 1));
  expect(log.every(({ isIntact }) => isIntact)).toBe(true);
  const stored = await sql`select count(*)::int as entries from log_entries`;
  expect(stored).toEqual([{ entries: log.length }]);
  expect(replicas.map(({ child }) => child.exitCode)).toEqual([null, null]);
  expect(await isSequencer(replicas[stopped] as Replica)).toBe(false);
}, 300_000);
