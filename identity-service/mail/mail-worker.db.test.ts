import { randomBytes } from "node:crypto";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { type Sql, transaction } from "#kit/database/postgres.ts";
import { createLogger } from "#kit/telemetry/logger.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { uuidv7 } from "#kit/values/uuid-v7.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { freePort } from "#tests/support/system/free-port.ts";
import { startTestSmtp, type TestSmtp } from "../testing/test-smtp.ts";
import { createLinkTokens } from "./links.ts";
import { claimDueMails, enqueueMail } from "./mail-outbox-store.ts";
import { createMailSender, type MailSender } from "./mail-sender.ts";
import { MailTemplates } from "./mail-templates.ts";
import { createMailWorker } from "./mail-worker.ts";

const START_MS = Date.parse("2031-01-02T03:04:05Z");
const DAY_S = 86_400;
const templates = new MailTemplates();

let database: TestDatabase;
let clockMs: number;
const endings: (() => unknown)[] = [];
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
beforeEach(() => {
  clockMs = START_MS;
});
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
  await emptyTables(database.ownerSql, "mail_outbox");
});
afterAll(() => database.drop());

const now = () => new Date(clockMs);
const passS = (seconds: number) => {
  clockMs += seconds * 1_000;
};
const rows = () => database.ownerSql<Record<string, unknown>[]>`select * from mail_outbox order by id`;

async function enqueue(
  change: { data?: object; template?: string; recipient?: string; userId?: string } = {},
): Promise<string> {
  const mail = {
    id: uuidv7(),
    userId: uuidv7(),
    recipient: "anna@example.com",
    template: "refresh-reuse" as const,
    data: { occurredAt: "2031-01-02T03:04:05Z", ip: "203.0.113.7", browser: "Firefox" },
  };
  await transaction(database.sql, (tx) => enqueueMail(tx, { ...mail, ...change } as typeof mail, now()));
  return mail.id;
}

async function startSmtp(port = 0): Promise<TestSmtp> {
  const smtp = await startTestSmtp({}, port);
  endings.push(() => smtp.close());
  return smtp;
}

function senderTo(port: number): MailSender {
  const sender = createMailSender({
    server: { host: "127.0.0.1", port, isTlsFromStart: false, user: undefined },
    from: { name: "Gatehouse", address: "no-reply@gatehouse.example" },
  });
  endings.push(() => sender.close());
  return sender;
}

const linkTokens = createLinkTokens(randomBytes(32), "https://gatehouse.example");

/** As a replica has it. */
function replica(sender: MailSender | undefined, sql: Sql = database.sql) {
  const logLines: string[] = [];
  const logger = createLogger("test", "info", { write: (line) => void logLines.push(line) });
  const metrics = createMetrics("test");
  const worker = createMailWorker({
    sql,
    templates,
    linkTokens,
    sender,
    now,
    random: () => 0,
    logger,
    metrics,
  });
  endings.push(() => worker.stop());
  const metric = async (name: string) => {
    const lines = (await metrics.render()).split("\n").filter((line) => line.startsWith(name));
    return lines.map((line) => Number(line.split(" ").at(-1)));
  };
  return { worker, logLines, metric };
}

/** Starts a worker that polls only when it is woken. */
function startWithoutPolls(worker: ReturnType<typeof createMailWorker>): void {
  vi.useFakeTimers({ toFake: ["setTimeout"] });
  worker.start();
  vi.useRealTimers();
}

/** Fails until `isBroken` is false. */
function brokenDatabase(statement: string) {
  const state = { isBroken: true, failures: 0 };
  const sql = new Proxy(database.sql, {
    apply(target, self, args: [TemplateStringsArray, ...unknown[]]) {
      if (state.isBroken && Array.isArray(args[0]) && args[0].join("").includes(statement)) {
        state.failures += 1;
        return Promise.reject(new Error("the database is away"));
      }
      return Reflect.apply(target, self, args);
    },
  });
  return { sql, state };
}

test("a mail is sent right after it was asked for, once, and then forgotten", async () => {
  const smtp = await startSmtp();
  const { worker, logLines, metric } = replica(senderTo(smtp.port));
  startWithoutPolls(worker);
  const id = await enqueue();
  worker.wake();
  await expect.poll(rows).toMatchObject([{ sent_at: now() }]);

  expect(smtp.mails).toMatchObject([{ to: ["anna@example.com"], messageId: `<${id}@gatehouse.example>` }]);
  const raw = smtp.mails[0]?.raw ?? "";
  expect(raw).toContain("Subject: We ended one of your sessions");
  for (const value of ["203.0.113.7", "Firefox"]) {
    expect(raw.split(value)).toHaveLength(3); // as text and as HTML
  }
  expect(await rows()).toMatchObject([{ id, recipient: null, data: null, attempts: 1 }]);
  expect(await metric('gatehouse_mails_total{template="refresh-reuse",result="sent"')).toEqual([1]);
  expect(logLines.join()).toContain(id);
  expect(logLines.join()).not.toMatch(/anna|203\.0\.113/);
});

test("a mail has the language and the time zone that the account has when it is sent", async () => {
  const smtp = await startSmtp();
  const userId = uuidv7();
  await database.ownerSql`
    insert into users (id, email, first_name, last_name, role, status, email_verified, created_at, updated_at)
    values (${userId}, 'anna@example.com', 'Anna', '', 'USER', 'active', true, ${now()}, ${now()})
  `;
  endings.push(() => database.ownerSql`delete from users`);
  await enqueue({ userId });
  await database.ownerSql`update users set language = 'de-CH', time_zone = 'Europe/Zurich'`;
  await replica(senderTo(smtp.port)).worker.poll();
  const raw = smtp.mails[0]?.raw ?? "";
  expect(raw).toContain("Subject: Wir haben eine Ihrer Sitzungen beendet");
  expect(raw).toContain("Zeit: 2. Januar 2031 um 04:04:05 MEZ");
});

test("without being woken a worker finds the mail by itself: the process that asked may be another", async () => {
  const smtp = await startSmtp();
  const { worker } = replica(senderTo(smtp.port));
  worker.start();
  await enqueue();
  await expect.poll(() => smtp.mails).toHaveLength(1);
});

test("four replicas at once: each of two hundred mails is sent once", async () => {
  const smtp = await startSmtp();
  const ids = await Promise.all(Array.from({ length: 200 }, () => enqueue()));
  const replicas = Array.from({ length: 4 }, () => replica(senderTo(smtp.port)));
  await Promise.all(replicas.map(({ worker }) => worker.poll()));
  expect(smtp.mails.map((mail) => mail.messageId).sort()).toEqual(
    ids.map((id) => `<${id}@gatehouse.example>`).sort(),
  );
  expect((await rows()).every((row) => row.sent_at !== null)).toBe(true);
});

test("the SMTP server is away: nothing is lost, it is tried again later and later, and sent when it is back", async () => {
  const port = await freePort();
  const { worker, logLines, metric } = replica(senderTo(port));
  const id = await enqueue();
  for (const pauseS of [30, 60, 120, 240]) {
    await worker.poll();
    expect(await rows()).toMatchObject([
      { id, sent_at: null, last_error: "ECONNREFUSED", next_attempt_at: new Date(clockMs + pauseS * 1_000) },
    ]);
    passS(pauseS - 1);
    await worker.poll();
    passS(1);
  }
  expect(await rows()).toMatchObject([{ attempts: 4 }]);
  expect(await metric("gatehouse_mail_oldest_waiting_seconds")).toEqual([450]);
  expect(logLines.filter((line) => line.includes("ECONNREFUSED"))).toHaveLength(4);

  const smtp = await startSmtp(port);
  await worker.poll();
  expect(smtp.mails).toHaveLength(1);
  expect(await rows()).toMatchObject([{ sent_at: now(), attempts: 5, last_error: null }]);
  expect(await metric("gatehouse_mail_oldest_waiting_seconds")).toEqual([0]);
});

test("a process dies between claim and send: another sends the mail when the lease has ended, not before", async () => {
  const smtp = await startSmtp();
  const id = await enqueue();
  const killed = await claimDueMails(database.sql, {
    now: now(),
    leaseMs: 120_000,
    createdAfter: new Date(0),
    templates: ["refresh-reuse"],
    limit: 20,
  });
  expect(killed).toMatchObject([{ id }]);

  const { worker } = replica(senderTo(smtp.port));
  passS(119);
  await worker.poll();
  expect(smtp.mails).toEqual([]);
  passS(1);
  await worker.poll();
  expect(smtp.mails).toHaveLength(1);
  expect(await rows()).toMatchObject([{ attempts: 2, sent_at: now() }]);
});

test("if the connection ends before the server has answered, the same mail is sent again", async () => {
  const smtp = await startSmtp();
  smtp.onMail = async () => {
    smtp.cut();
    await new Promise(() => undefined);
  };
  const id = await enqueue();
  const { worker } = replica(senderTo(smtp.port));
  await worker.poll();
  expect(await rows()).toMatchObject([{ sent_at: null, last_error: expect.stringMatching(/^E/) }]);

  smtp.onMail = async () => undefined;
  passS(30);
  await worker.poll();
  const messageId = `<${id}@gatehouse.example>`;
  expect(smtp.mails).toMatchObject([{ messageId }, { messageId }]);
  expect(await rows()).toMatchObject([{ sent_at: now() }]);
});

test("nothing is marked as sent before the server has taken it", async () => {
  const smtp = await startSmtp();
  const seen: unknown[] = [];
  smtp.onMail = async () => {
    seen.push(...(await rows()).map((row) => row.sent_at));
  };
  await enqueue();
  await replica(senderTo(smtp.port)).worker.poll();
  expect(seen).toEqual([null]);
});

test("the database is away for a moment after a mail was sent: it is marked later, and not sent twice", async () => {
  const smtp = await startSmtp();
  await enqueue();
  const { sql, state } = brokenDatabase("set sent_at");
  const { worker } = replica(senderTo(smtp.port), sql);
  const polled = worker.poll();
  await expect.poll(() => state.failures).toBeGreaterThan(1);
  expect(smtp.mails).toHaveLength(1);
  state.isBroken = false;
  await polled;
  expect(await rows()).toMatchObject([{ sent_at: now() }]);
  passS(3_600);
  await worker.poll();
  expect(smtp.mails).toHaveLength(1);
});

test("a server that refuses for now, or by its own rules, is tried again; an address that does not exist is not", async () => {
  const smtp = await startSmtp();
  const { worker, logLines, metric } = replica(senderTo(smtp.port));
  await enqueue();
  smtp.refuseRecipients({ code: 554, text: "5.7.1 <anna@example.com>: relay access denied" });
  await worker.poll();
  expect(await rows()).toMatchObject([{ given_up_at: null, last_error: "EENVELOPE 554 5.7.1" }]);

  passS(30);
  smtp.refuseRecipients({ code: 550, text: "5.1.1 <anna@example.com>: user unknown" });
  await worker.poll();
  expect(await rows()).toMatchObject([
    { given_up_at: now(), last_error: "EENVELOPE 550 5.1.1", recipient: null, data: null },
  ]);
  expect(await metric('gatehouse_mails_total{template="refresh-reuse",result="given_up"')).toEqual([1]);
  const problems = logLines.filter((line) => JSON.parse(line).level === "error");
  expect(problems).toEqual([expect.stringContaining("the address does not exist")]);
  expect(logLines.join()).not.toContain("anna");
});

test("a mail to an address that needs SMTPUTF8 is given up at once if the server lacks it, and the log names the setting", async () => {
  const smtp = await startSmtp();
  smtp.offerUtf8(false);
  const { worker, logLines, metric } = replica(senderTo(smtp.port));
  await enqueue({ recipient: "jürgen@example.com" });
  await worker.poll();
  expect(await rows()).toMatchObject([
    { given_up_at: now(), last_error: "no SMTPUTF8", recipient: null, data: null, attempts: 1 },
  ]);
  expect(await metric('gatehouse_mails_total{template="refresh-reuse",result="given_up"')).toEqual([1]);
  const problems = logLines.filter((line) => JSON.parse(line).level === "error");
  expect(problems).toEqual([expect.stringMatching(/mail given up.*SMTP_UTF8/)]);
  expect(logLines.join()).not.toContain("jürgen");
  expect(smtp.mails).toEqual([]);
});

test("after three days a mail is given up: logged as an error, counted, forgotten, never sent", async () => {
  const port = await freePort();
  const { worker, logLines, metric } = replica(senderTo(port));
  const id = await enqueue();
  await worker.poll();
  passS(3 * DAY_S - 1);
  await worker.cleanUp();
  expect(await rows()).toMatchObject([{ given_up_at: null }]);
  passS(1);
  const smtp = await startSmtp(port);
  await worker.poll();
  await worker.cleanUp();
  expect(smtp.mails).toEqual([]);
  expect(await rows()).toMatchObject([{ id, given_up_at: now(), recipient: null, data: null }]);
  expect(await metric('gatehouse_mails_total{template="refresh-reuse",result="given_up"')).toEqual([1]);
  const problems = logLines
    .filter((line) => JSON.parse(line).level === "error")
    .map((line) => JSON.parse(line));
  expect(problems).toMatchObject([{ mailId: id, attempts: 1, reason: "ECONNREFUSED" }]);
});

test("the row of a mail is deleted after thirty days", async () => {
  const smtp = await startSmtp();
  const { worker } = replica(senderTo(smtp.port));
  await enqueue();
  await worker.poll();
  passS(30 * DAY_S);
  await worker.cleanUp();
  expect(await rows()).toHaveLength(1);
  passS(1);
  await worker.cleanUp();
  expect(await rows()).toEqual([]);
});

test("without an SMTP server mails wait, and their age can be seen", async () => {
  const { worker, metric } = replica(undefined);
  await enqueue();
  passS(600);
  await worker.poll();
  expect(await rows()).toMatchObject([{ attempts: 0, sent_at: null }]);
  expect(await metric("gatehouse_mail_oldest_waiting_seconds")).toEqual([600]);
});

test("a mail that cannot be written holds up no other, and its data is in no log", async () => {
  const smtp = await startSmtp();
  const { worker, logLines } = replica(senderTo(smtp.port));
  const forged = await enqueue({
    data: { occurredAt: "2031-01-02T03:04:05Z", browser: "x", ip: "1\r\nBcc: eve@evil.example" },
  });
  const incomplete = await enqueue({ data: {} });
  const good = await enqueue();
  await worker.poll();
  expect(smtp.mails).toMatchObject([{ messageId: `<${good}@gatehouse.example>` }]);
  expect(await rows()).toMatchObject([
    { id: forged, last_error: "not rendered", sent_at: null },
    { id: incomplete, last_error: "not rendered", sent_at: null },
    { id: good, sent_at: now() },
  ]);
  expect(logLines.join()).not.toContain("evil");
});

test("a mail that only a newer version can write waits for it", async () => {
  const smtp = await startSmtp();
  await enqueue({ template: "a-mail-of-tomorrow" });
  await replica(senderTo(smtp.port)).worker.poll();
  expect(await rows()).toMatchObject([{ attempts: 0, sent_at: null }]);
});

test("stopping waits for a mail that is being sent, and begins no other", async () => {
  const smtp = await startSmtp();
  const isThere = Promise.withResolvers<void>();
  const mayAnswer = Promise.withResolvers<void>();
  smtp.onMail = () => {
    isThere.resolve();
    return mayAnswer.promise;
  };
  const { worker } = replica(senderTo(smtp.port));
  worker.start();
  await enqueue();
  worker.wake();
  await isThere.promise;
  await enqueue();
  const stopped = worker.stop();
  worker.wake();
  mayAnswer.resolve();
  await stopped;
  expect(smtp.mails).toHaveLength(1);
  expect((await rows()).map((row) => row.sent_at)).toEqual([now(), null]);
});

test("stopping does not wait for a server that never answers; another worker sends the mail", async () => {
  const smtp = await startSmtp();
  const isThere = Promise.withResolvers<void>();
  smtp.onMail = () => {
    isThere.resolve();
    return new Promise(() => undefined);
  };
  const { worker } = replica(senderTo(smtp.port));
  worker.start();
  await enqueue();
  worker.wake();
  await isThere.promise;
  await worker.stop();
  expect(await rows()).toMatchObject([{ sent_at: null, last_error: "EABORT" }]);
});
