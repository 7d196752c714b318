import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { connectTo } from "#deploy/local/postgres/ensure-database.ts";
import { transaction } from "#kit/database/postgres.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { uuidv7 } from "#kit/values/uuid-v7.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { register } from "../accounts/register.ts";
import { createMailSender } from "../mail/mail-sender.ts";
import { BUILT_IN_MAIL_TEMPLATES, MailTemplates } from "../mail/mail-templates.ts";
import { createMailWorker } from "../mail/mail-worker.ts";
import { soon, testDeps } from "../testing/test-deps.ts";
import { startTestSmtp } from "../testing/test-smtp.ts";
import { eraseUser, lockAccount } from "../users/account-store.ts";
import { notifyRefreshReuse, type RefreshReuse } from "./notify-refresh-reuse.ts";

let database: TestDatabase;
let deps: Awaited<ReturnType<typeof testDeps>>;
let userId: string;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
  deps = await testDeps(database.sql);
  const anna = { email: "anna@example.com", password: "Password123!", firstName: "Anna", lastName: "Smith" };
  userId = (await register(deps, anna, soon())).id;
  await emptyTables(database.ownerSql, "mail_outbox", "counted_mails");
  deps.wakeMailWorker.mockClear();
});
afterEach(() => {
  deps.wakeMailWorker.mockClear();
  return emptyTables(database.ownerSql, "mail_outbox", "counted_mails");
});
afterAll(() => database.drop());

const event = (change: Partial<RefreshReuse> = {}): RefreshReuse => ({
  eventId: uuidv7(),
  userId,
  occurredAt: new Date("2031-01-02T03:04:05.678Z"),
  clientIp: "203.0.113.7",
  userAgent: "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0",
  ...change,
});
const rows = () => database.ownerSql<Record<string, unknown>[]>`select * from mail_outbox`;

test("a reuse puts one mail to the owner's address into the outbox, and the worker is woken", async () => {
  const notice = event();
  await notifyRefreshReuse(deps, notice);
  expect(await rows()).toEqual([
    {
      id: notice.eventId,
      user_id: userId,
      template: "refresh-reuse",
      recipient: "anna@example.com",
      data: {
        occurredAt: "2031-01-02T03:04:05.678Z",
        ip: "203.0.113.7",
        browser: [{ phrase: "device", values: { browser: "Firefox", system: "Linux" } }],
      },
      created_at: deps.now(),
      next_attempt_at: deps.now(),
      attempts: 0,
      last_error: null,
      sent_at: null,
      given_up_at: null,
    },
  ]);
  expect(deps.wakeMailWorker).toHaveBeenCalledTimes(1);
});

test("one event reported fifty times at once to several processes is one mail", async () => {
  const smtp = await startTestSmtp();
  const sender = createMailSender({
    server: { host: "127.0.0.1", port: smtp.port, isTlsFromStart: false, user: undefined },
    from: { name: "", address: "no-reply@gatehouse.example" },
  });
  const templates = new MailTemplates(BUILT_IN_MAIL_TEMPLATES);
  const replicas = Array.from({ length: 2 }, () => {
    const options = { ...deps, templates, sender, random: () => 0, metrics: createMetrics("test") };
    return createMailWorker(options);
  });
  const notice = event();
  try {
    for (const worker of replicas) worker.start();
    const notify = (_: unknown, index: number) => {
      const wakeMailWorker = () => replicas[index % 2]?.wake();
      return notifyRefreshReuse({ ...deps, wakeMailWorker }, notice);
    };
    await Promise.all(Array.from({ length: 50 }, notify));
    await expect.poll(rows).toMatchObject([{ sent_at: deps.now() }]);
    await notifyRefreshReuse(deps, notice);
    expect(deps.wakeMailWorker).not.toHaveBeenCalled();
    await Promise.all(replicas.map((worker) => worker.poll()));
    expect(smtp.mails.map((mail) => mail.messageId)).toEqual([`<${notice.eventId}@gatehouse.example>`]);
  } finally {
    await Promise.all(replicas.map((worker) => worker.stop()));
    sender.close();
    await smtp.close();
  }
});

test("two events are two mails", async () => {
  await notifyRefreshReuse(deps, event());
  await notifyRefreshReuse(deps, event());
  expect(await rows()).toHaveLength(2);
});

test("an event of a deleted user sends no mail and is no error", async () => {
  await notifyRefreshReuse(deps, event({ userId: uuidv7() }));
  expect(await rows()).toEqual([]);
  expect(deps.wakeMailWorker).not.toHaveBeenCalled();
});

test("while its user is erased, an event waits, and then keeps no address of nobody", async () => {
  const { id } = await register(
    deps,
    { email: "ben@example.com", password: "Password123!", firstName: "Ben", lastName: "" },
    soon(),
  );
  let notified: Promise<void> | undefined;
  await transaction(deps.sql, async (tx) => {
    await lockAccount(tx, id);
    await eraseUser(tx, id);
    notified = notifyRefreshReuse(deps, event({ userId: id }));
    await expect.poll(database.waitingForLocks, { interval: 5 }).toBe(1);
  });
  await notified;
  expect(await rows()).toEqual([]);
});

test.each(["", "203.0.113.7, 10.0.0.1", "fe80::1%call-0800-evil", "<b>"])(
  "the address %j is unknown",
  async (clientIp) => {
    await notifyRefreshReuse(deps, event({ clientIp }));
    expect(await rows()).toMatchObject([{ data: { ip: [{ phrase: "unknown" }] } }]);
  },
);

test("the text of the User-Agent header is in no mail", async () => {
  await notifyRefreshReuse(deps, event({ userAgent: "Firefox/1 call +1 555 0100 or https://evil.example" }));
  await notifyRefreshReuse(deps, event({ userAgent: "x".repeat(60_000) }));
  expect((await rows()).map((row) => (row.data as { browser: string }).browser)).toEqual([
    "Firefox",
    [{ phrase: "unknown" }],
  ]);
});

test.each([
  [{ eventId: "" }, [{ field: "eventId", code: "invalid_format" }]],
  [{ userId: "' or true --" }, [{ field: "userId", code: "invalid_format" }]],
  [
    { occurredAt: undefined, eventId: "1" },
    [{ field: "eventId" }, { field: "occurredAt", code: "required" }],
  ],
])("an event that is not well-formed is refused: %j", async (change, fields) => {
  await expect(notifyRefreshReuse(deps, event(change))).rejects.toMatchObject({
    code: "validation_failed",
    fields,
  });
  expect(await rows()).toEqual([]);
});

test("without its database the call is unavailable, so that the caller retries", async () => {
  const nowhere = connectTo(
    { host: "127.0.0.1", port: 1, username: "gatehouse_identity", password: "any" },
    "identity",
  );
  const notice = notifyRefreshReuse({ ...deps, sql: nowhere }, event());
  await expect(notice).rejects.toMatchObject({ code: "service_unavailable", retryAfterMs: 1_000 });
  await nowhere.end();
});
