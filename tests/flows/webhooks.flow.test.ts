import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectTo } from "#deploy/local/postgres/ensure-database.ts";
import { type Receiver, startReceiver } from "#event-service/delivery/replica.fixture.ts";
import { type ApiClient, apiClient } from "../support/people/api-client.ts";
import { type CrashingSystem, startCrashingSystem } from "../support/system/crashing-system.ts";
import { ADMIN } from "../support/system/system.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");

let system: CrashingSystem;
let api: ApiClient;
let shop: Receiver;
let token: string;

beforeAll(async () => {
  [system, shop] = await Promise.all([startCrashingSystem(), startReceiver()]);
  api = apiClient(system.url);
  token = (await api.logIn(ADMIN)).accessToken;
});
afterAll(async () => {
  await system?.remove();
  shop?.close();
});

async function asked(database: string, statement: string) {
  const sql = connectTo(system.server(), database);
  try {
    return await sql.unsafe(statement);
  } finally {
    await sql.end({ timeout: 1 });
  }
}

/** What everybody must be sent of the log, from a number on. */
async function entriesFrom(first: number): Promise<{ sequence: number; action: string }[]> {
  const rows = await asked(
    "audit",
    `select sequence::int, action from leaves join log_entries using (position) where sequence >= ${first} and kind in ('outcome', 'event') order by 1`,
  );
  return rows.map(({ sequence, action }) => ({ sequence, action }));
}

const numberOf = (type: string, { received }: Receiver) =>
  received.find(({ body }) => JSON.parse(body).type === type)?.sequence ?? 0;
/** Of the log as it is now: what of it was not received, and what was received that it does not have. */
async function difference(from: number) {
  const logged = new Set((await entriesFrom(from)).map(({ sequence }) => sequence));
  const received = new Set(shop.received.map(({ sequence }) => sequence).filter((it) => it >= from));
  return { lost: [...logged.difference(received)], invented: [...received.difference(logged)] };
}

test("events reach a webhook through kills of every process and of PostgreSQL: none is lost, each subject in order", async () => {
  const body = { name: "Shop", url: shop.url, types: ["gatehouse.*"] };
  const made = await api.post("/admin/webhooks", body, { token });
  expect(made.status).toBe(201);
  const { webhook, secret } = made.body.data as { webhook: { id: string; ownerId: string }; secret: string };
  // The outcome of the call that made it: it is told of everything from then on.
  await expect.poll(() => numberOf("gatehouse.admin.webhooks.create.v1", shop)).toBeGreaterThan(0);
  const from = numberOf("gatehouse.admin.webhooks.create.v1", shop);
  const user = await api.newUser();
  let changes = 0;
  const act = async (firstName: string) => {
    changes++;
    const changed = await api.call("PATCH", "/auth/me", { token: user.accessToken, body: { firstName } });
    expect(changed.status).toBe(200);
  };
  for (const name of [
    "event-service",
    "audit-service",
    "identity-service",
    "postgres",
    "event-service",
  ] as const) {
    await act(`before ${name}`);
    await system.kill(name);
    if (name !== "identity-service" && name !== "postgres") await act(`without ${name}`);
    await system.start(name);
    await act(`after ${name}`);
  }
  // A process that was killed tells the log of what it did only after its restart.
  const outcomes = async () =>
    (await entriesFrom(from)).filter(({ action }) => action === "auth.update_profile").length;
  await expect.poll(outcomes).toBeGreaterThanOrEqual(changes);
  await expect.poll(() => difference(from)).toEqual({ lost: [], invented: [] });
  for (const { body, headers } of shop.received) new Webhook(secret).verify(body, headers);
  const bySubject = Map.groupBy(
    shop.received.filter(({ subject }) => subject !== ""),
    ({ subject }) => subject,
  );
  expect(bySubject.size).toBeGreaterThanOrEqual(2);
  for (const events of bySubject.values()) {
    const firsts = [...new Set(events.map(({ sequence }) => sequence))];
    expect(firsts).toEqual(firsts.toSorted((a, b) => a - b));
  }
  expect(system.ended).toEqual([]);

  const list = await api.get(`/admin/webhooks/${webhook.id}/deliveries`, { token });
  expect(list.body.data).toMatchObject({
    deliveries: expect.arrayContaining([expect.objectContaining({ state: "delivered" })]),
  });
});

test("an endpoint that does not answer keeps nothing from the others", async () => {
  const silent = await startReceiver();
  silent.answer(() => undefined);
  try {
    const made = await api.post(
      "/admin/webhooks",
      { name: "Silent", url: silent.url, types: ["gatehouse.*"] },
      { token },
    );
    expect(made.status).toBe(201);
    await expect.poll(() => silent.received.length).toBeGreaterThan(0);
    const before = shop.received.length;
    await api.newUser();
    await expect.poll(() => shop.received.length).toBeGreaterThan(before + 2);
    const { id } = (made.body.data as { webhook: { id: string } }).webhook;
    expect((await api.call("DELETE", `/admin/webhooks/${id}`, { token })).status).toBe(200);
  } finally {
    silent.close();
  }
});

test("the command shows the events of the running system, verified, and leaves nothing behind", async () => {
  const child: ChildProcess = spawn(
    process.execPath,
    ["cli/main.ts", "webhooks", "listen", "--home", system.home, "--json"],
    {
      cwd: ROOT,
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  const lines: { isVerified: boolean; event: { subject?: string } }[] = [];
  createInterface({ input: child.stdout as NodeJS.ReadableStream }).on(
    "line",
    (line) => void lines.push(JSON.parse(line)),
  );
  const names = async () => {
    const { data } = (await api.get("/admin/webhooks", { token })).body;
    return (data as { webhooks: { name: string }[] }).webhooks.map(({ name }) => name);
  };
  await expect.poll(async () => (await names()).length).toBe(2);
  const user = await api.newUser();
  await expect
    .poll(() => lines.filter(({ isVerified, event }) => isVerified && event.subject === user.user.id).length)
    .toBeGreaterThan(0);
  child.kill("SIGINT");
  const [code] = await once(child, "exit");
  expect(code).toBe(0);
  expect(await names()).toEqual(["Shop"]);
});
