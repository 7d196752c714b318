import { spawn } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { resolve } from "node:path";
import { pino } from "pino";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { noteReadings } from "#audit-client/stream/entry.fixture.ts";
import {
  newKey,
  type Receiver,
  startReceiver,
  startReplica,
} from "#event-service/delivery/replica.fixture.ts";
import { LogsInMemory } from "#event-service/stream/event.fixture.ts";
import { createWebhookRpc, WEBHOOK_CALLERS } from "#event-service/webhook-rpc.ts";
import { RpcServer } from "#kit/rpc/rpc-server.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { WebhookServiceService } from "#proto/gatehouse/events/v1/webhook_service.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { createTestCertificates, type TestCertificates } from "#tests/support/system/certificates.ts";
import { BARE_ENVIRONMENT } from "#tests/support/system/system.ts";
import { EXIT } from "../../exit-code.ts";
import { run } from "../../run.ts";
import { COMMANDS } from "../commands.ts";

const USER_ID = randomUUID();
const MAIN = resolve(import.meta.dirname, "../../main.ts");

let certificates: TestCertificates;
let database: TestDatabase;
let environment: Record<string, string>;
let logs: LogsInMemory;
let readings: ReturnType<typeof noteReadings>;
let hook: Receiver;

beforeAll(async () => {
  certificates = await createTestCertificates();
  database = await createTestDatabase("event-service");
  hook = await startReceiver();
});
beforeEach(async () => {
  await emptyTables(database.ownerSql, "endpoints", "replicas");
  [logs, readings] = [new LogsInMemory(), noteReadings()];
  hook.received.length = 0;
  hook.status(204);
  const replica = startReplica({ sql: database.sql, logs, keys: [newKey()] });
  await replica.start();
  const server = new RpcServer({
    address: "127.0.0.1:0",
    certificate: certificates.of("event-service"),
    logger: pino({ level: "silent" }),
    metrics: createMetrics("event-service"),
  });
  server.add(
    WebhookServiceService,
    WEBHOOK_CALLERS,
    createWebhookRpc(replica.manage, readings.recordReading),
  );
  const port = await server.listen();
  environment = { EVENT_SERVICE_ADDRESS: `127.0.0.1:${port}`, ...certificates.environmentOf("operator") };
  return async () => {
    await replica.stop();
    await server.close(0);
  };
});
afterAll(async () => {
  hook.close();
  await certificates.remove();
  await database.drop();
});

const happen = (...actions: string[]) =>
  logs.add(...actions.map((action) => ({ action, resource: USER_ID })));

async function gatehouse(...argv: string[]) {
  let [out, error] = ["", ""];
  const code = await run(argv, COMMANDS, {
    environment,
    defaultHome: "/no such home",
    writeOut: (text) => {
      out += text;
    },
    writeError: (text) => {
      error += text;
    },
  });
  return { code, out, error };
}

/** With `--json`. */
async function answered(...argv: string[]) {
  const { code, out, error } = await gatehouse(...argv, "--json");
  expect([code, error]).toEqual([EXIT.ok, ""]);
  return JSON.parse(out);
}

const create = (...options: string[]) =>
  answered("webhooks", "create", hook.url, "--name", "Tickets", "--type", "gatehouse.user.*", ...options);

/** With the headers of each request, verified by its secret. */
const typesSent = (secret: string) =>
  hook.received.map(({ headers, body }) => {
    const event = new Webhook(secret).verify(body, headers);
    return (event as { type: string }).type;
  });

test("a webhook is made, listed, changed, paused, resumed and deleted, and each act is recorded", async () => {
  const made = await gatehouse(
    ...[
      "webhooks",
      "create",
      hook.url,
      "--name",
      "Tickets",
      "--type",
      "gatehouse.user.*",
      "--owner",
      USER_ID,
    ],
  );
  expect(made).toMatchObject({ code: EXIT.ok, error: "" });
  const [, id = ""] =
    /^(\S+) was made\. Its secret, shown this once:\nwhsec_[\w+/]{43}=\n$/.exec(made.out) ?? [];
  const facts = { id, name: "Tickets", url: hook.url, types: ["gatehouse.user.*"], ownerId: USER_ID };
  const listed = await answered("webhooks", "list");
  expect(listed).toMatchObject({ webhooks: [{ ...facts, status: "active", waiting: 0 }], nextCursor: null });
  expect(JSON.stringify(listed)).not.toContain("whsec_");
  expect((await gatehouse("webhooks", "list")).out).toContain(hook.url);

  const change = (...options: string[]) => answered("webhooks", "change", id, ...options);
  const types = ["gatehouse.session.*", "gatehouse.user.imported.v1"];
  const changed = await change("--name", "Other", ...types.flatMap((type) => ["--type", type]));
  expect(changed.webhook).toMatchObject({ ...facts, name: "Other", types, status: "active" });
  expect((await change("--pause")).webhook).toMatchObject({ status: "paused", pausedReason: "asked" });
  expect((await change("--resume")).webhook).toMatchObject({ status: "active", pausedReason: null });
  expect((await gatehouse("webhooks", "change", id, "--pause", "--resume")).code).toBe(EXIT.usage);

  expect((await gatehouse("webhooks", "delete", id)).code).toBe(EXIT.usage);
  expect((await gatehouse("webhooks", "delete", id, "--yes")).out).toBe(`${id} is deleted\n`);
  expect((await answered("webhooks", "list")).webhooks).toEqual([]);
  const gone = await gatehouse("webhooks", "delete", id, "--yes");
  expect(gone.code).toBe(EXIT.failed);
  const acts = readings.noted.map(({ action }) => action).filter((action) => action !== "webhook.listed");
  const ofChanges = Array.from({ length: 3 }, () => "webhook.changed");
  expect(acts).toEqual(["webhook.created", ...ofChanges, "webhook.deleted", "webhook.deleted"]);
});

test("a new secret signs with the former one for a time, or at once alone", async () => {
  const { webhook, secret } = await create();
  const rotated = await answered("webhooks", "rotate-secret", webhook.id);
  expect(rotated.secret).not.toBe(secret);
  const hours = (Date.parse(rotated.webhook.formerSecretUntil) - Date.now()) / 3_600_000;
  expect(Math.round(hours)).toBe(24);
  expect((await gatehouse("webhooks", "test", webhook.id)).code).toBe(EXIT.ok);
  for (const each of [secret, rotated.secret]) expect(typesSent(each)).toEqual(["gatehouse.webhook.test.v1"]);

  const last = await answered("webhooks", "rotate-secret", webhook.id, "--overlap-hours", "0");
  expect(last.webhook.formerSecretUntil).toBeNull();
  hook.received.length = 0;
  await gatehouse("webhooks", "test", webhook.id);
  expect(typesSent(last.secret)).toEqual(["gatehouse.webhook.test.v1"]);
  expect(() => typesSent(rotated.secret)).toThrow();
  const long = await gatehouse("webhooks", "rotate-secret", webhook.id, "--overlap-hours", "169");
  expect(long.code).toBe(EXIT.usage);
});

test("a test says what came of it, also by the exit code", async () => {
  const { webhook } = await create();
  const delivered = await gatehouse("webhooks", "test", webhook.id);
  expect(delivered).toMatchObject({
    code: EXIT.ok,
    out: expect.stringMatching(/^delivered \(HTTP 204, \d+ ms\)\n$/),
  });
  hook.status(500);
  const failed = await gatehouse("webhooks", "test", webhook.id, "--json");
  expect([failed.code, JSON.parse(failed.out)]).toMatchObject([
    EXIT.failed,
    { httpStatus: 500, problem: "status" },
  ]);
});

test("deliveries are shown, and sent again from a place on", async () => {
  const { webhook, secret } = await create();
  happen("user.imported", "client.created", "user.stepped_up");
  await expect
    .poll(() => typesSent(secret))
    .toEqual(["gatehouse.user.imported.v1", "gatehouse.user.stepped_up.v1"]);
  const shown = async () => (await answered("webhooks", "deliveries", webhook.id)).deliveries;
  await expect.poll(shown).toMatchObject([
    { log: 0, sequence: 3, type: "gatehouse.user.stepped_up.v1", state: "delivered", httpStatus: 204 },
    { log: 0, sequence: 1, type: "gatehouse.user.imported.v1", subject: USER_ID, attempts: 1 },
  ]);
  const table = await gatehouse("webhooks", "deliveries", webhook.id);
  expect(table.out).toMatch(/^3 +gatehouse\.user\.stepped_up\.v1 +\S+ +delivered +1 /m);

  hook.received.length = 0;
  await answered("webhooks", "replay", webhook.id, "--from", "0:2");
  await expect
    .poll(async () => {
      return typesSent(secret);
    })
    .toEqual(["gatehouse.user.stepped_up.v1"]);
  expect((await gatehouse("webhooks", "replay", webhook.id, "--from", "9")).code).toBe(EXIT.failed);
  expect((await gatehouse("webhooks", "replay", webhook.id, "--from", "x")).code).toBe(EXIT.usage);
});

/** The program, as somebody starts it, once its webhook is there. */
async function listen(...options: string[]) {
  const child = spawn(process.execPath, [MAIN, "webhooks", "listen", ...options], {
    env: { ...BARE_ENVIRONMENT, ...environment },
  });
  const exited = once(child, "exit");
  let [out, error] = ["", ""];
  child.stdout.on("data", (data: Buffer) => {
    out += data;
  });
  child.stderr.on("data", (data: Buffer) => {
    error += data;
  });
  await expect.poll(() => error).toContain("until Ctrl-C");
  const [webhook] = (await answered("webhooks", "list")).webhooks;
  return {
    url: webhook.url as string,
    lines: () => out.trim().split("\n"),
    end: async () => {
      child.kill("SIGINT");
      const [code] = await exited;
      return code;
    },
  };
}

test("listen shows events with their signature verified, refuses others, and leaves no webhook", async () => {
  const { url, lines, end } = await listen("--type", "gatehouse.user.*");
  happen("user.imported");
  const line = /^\S+Z {2}gatehouse\.user\.imported\.v1 {2}(\S+) {2}success {2}1 {2}signature verified$/;
  await expect.poll(lines).toEqual([expect.stringMatching(line)]);
  expect(line.exec(lines()[0] ?? "")?.[1]).toBe(USER_ID);

  const signature = `v1,${randomBytes(32).toString("base64")}`;
  const timestamp = String(Math.floor(Date.now() / 1_000));
  const headers = { "webhook-id": "1", "webhook-timestamp": timestamp, "webhook-signature": signature };
  const forged = await fetch(url, { method: "POST", headers, body: "{}" });
  expect(forged.status).toBe(401);
  await expect.poll(() => lines()[1]).toMatch(/^\S+Z {2}bad signature: answered 401$/);
  expect(await end()).toBe(EXIT.ok);
  expect((await answered("webhooks", "list")).webhooks).toEqual([]);
});

test("listen sends events on with their signature, and again if they are not taken", async () => {
  hook.status(500);
  const { lines, end } = await listen("--json", "--forward-to", hook.url);
  happen("user.imported");
  const shown = () => lines().map((line) => (line === "" ? {} : JSON.parse(line)));
  const event = { type: "gatehouse.user.imported.v1", sequence: "1" };
  await expect.poll(shown).toMatchObject([{ isVerified: true, forwardStatus: 500, event }]);
  const [webhook] = (await answered("webhooks", "list")).webhooks;
  const deliveries = async () => (await answered("webhooks", "deliveries", webhook.id)).deliveries;
  await expect.poll(deliveries).toMatchObject([{ state: "waiting", httpStatus: 502 }]);

  hook.status(204);
  await answered("webhooks", "change", webhook.id, "--pause");
  await answered("webhooks", "change", webhook.id, "--resume");
  await expect
    .poll(async () => {
      return shown();
    })
    .toMatchObject([{ forwardStatus: 500 }, { forwardStatus: 204, event }]);
  const [first, second] = hook.received;
  expect(second?.body).toBe(first?.body);
  expect(JSON.parse(first?.body ?? "")).toMatchObject(event);
  expect(second?.headers).toMatchObject({
    "webhook-id": first?.headers["webhook-id"],
    "webhook-timestamp": expect.stringMatching(/^\d+$/),
    "webhook-signature": expect.stringMatching(/^v1,/),
    "content-type": "application/cloudevents+json; charset=utf-8",
  });
  expect(await end()).toBe(EXIT.ok);
});

test.each([
  "https://tickets.example/",
  "http://10.0.0.1/",
  "http://localhost.example/",
  "file:///x",
  "no url",
])("listen does not send on to %s", async (url) => {
  const { code, error } = await gatehouse("webhooks", "listen", "--forward-to", url);
  expect([code, error]).toEqual([EXIT.usage, expect.stringContaining("--forward-to")]);
});
