import { afterAll, beforeAll, expect, test } from "vitest";
import { transaction } from "#kit/database/postgres.ts";
import { uuidv7 } from "#kit/values/uuid-v7.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { register } from "../accounts/register.ts";
import { soon, testDeps } from "../testing/test-deps.ts";
import { eraseUser, lockAccount } from "../users/account-store.ts";
import { notifyWebhookPaused, type WebhookPause } from "./notify-webhook-paused.ts";

let database: TestDatabase;
let deps: Awaited<ReturnType<typeof testDeps>>;
let userId: string;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
  deps = await testDeps(database.sql);
  const anna = { email: "anna@example.com", password: "Password123!", firstName: "Anna", lastName: "Smith" };
  userId = (await register(deps, anna, soon())).id;
});
afterAll(() => database.drop());

const pause = (change: Partial<WebhookPause> = {}): WebhookPause => ({
  ...{ eventId: uuidv7(), userId, webhookName: "Shop", pausedAt: new Date("2031-01-02T03:04:05.678Z") },
  ...change,
});
const rows = () => database.ownerSql`select * from mail_outbox where template = 'webhook-paused'`;

test("the owner is written to once, however often it is told; nobody else is", async () => {
  const notice = pause();
  for (const _time of [1, 2, 3]) await notifyWebhookPaused(deps, notice);
  await notifyWebhookPaused(deps, pause({ userId: uuidv7() }));
  expect(await rows()).toMatchObject([
    {
      id: notice.eventId,
      user_id: userId,
      recipient: "anna@example.com",
      data: { webhook: "Shop", occurredAt: "2031-01-02T03:04:05.678Z" },
    },
  ]);
});

test("while the owner is erased, a notice waits, and then keeps no address of nobody", async () => {
  const ben = { email: "ben@example.com", password: "Password123!", firstName: "Ben", lastName: "" };
  const { id } = await register(deps, ben, soon());
  const notice = pause({ userId: id });
  let notified: Promise<void> | undefined;
  await transaction(deps.sql, async (tx) => {
    await lockAccount(tx, id);
    await eraseUser(tx, id);
    notified = notifyWebhookPaused(deps, notice);
    await expect.poll(database.waitingForLocks, { interval: 5 }).toBe(1);
  });
  await notified;
  expect(await rows()).not.toContainEqual(expect.objectContaining({ id: notice.eventId }));
});

test.each([{ eventId: "" }, { userId: "x" }, { pausedAt: undefined }])(
  "what is not well-formed is refused: %j",
  async (change) => {
    await expect(notifyWebhookPaused(deps, pause(change))).rejects.toMatchObject({
      code: "validation_failed",
    });
  },
);
