import { createHash } from "node:crypto";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { transaction } from "#kit/database/postgres.ts";
import type { DomainError } from "#kit/values/errors.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { noticeId } from "../mail/mail.ts";
import { createHashShare } from "../passwords/hash-share.ts";
import { soon, testDeps } from "../testing/test-deps.ts";
import { MemoryThrottle } from "../throttle/memory-throttle.ts";
import { throttleLimits } from "../throttle/throttle.ts";
import { lockAddresses } from "../users/user-store.ts";
import { type Registration, register } from "./register.ts";

let database: TestDatabase;
let deps: Awaited<ReturnType<typeof testDeps>>;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
  deps = await testDeps(database.sql);
});
afterEach(() =>
  emptyTables(
    database.ownerSql,
    "users",
    "counted_mails",
    "mail_outbox",
    "released_addresses",
    "security_events",
  ),
);
afterAll(() => database.drop());

const ANNA: Registration = {
  email: "Anna.Smith@Example.COM",
  password: "Password123!",
  firstName: " Anna ",
  lastName: "Smith",
};

const rows = () => database.ownerSql<Record<string, unknown>[]>`select * from users`;

test("the account keeps the language and the time zone of its mails, as they are spelled; others are refused", async () => {
  await register(deps, { ...ANNA, language: "de-at", timeZone: "europe/vienna" }, soon());
  const kept = await database.ownerSql`select language, time_zone from users`;
  expect(kept).toEqual([{ language: "de-AT", time_zone: "Europe/Vienna" }]);
  const wrong = { ...ANNA, email: "ben@example.com", language: "de_AT", timeZone: "Mars/Olympus" };
  await expect(register(deps, wrong, soon())).rejects.toMatchObject({
    code: "validation_failed",
    fields: [{ field: "language" }, { field: "timeZone" }],
  });
});

test("a registration makes an account of a USER, unproven, with a hash and no password", async () => {
  const user = await register(deps, ANNA, soon());
  expect(user).toEqual({
    id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/),
    email: "anna.smith@example.com",
    firstName: "Anna",
    lastName: "Smith",
    role: "USER",
    emailVerified: false,
    createdAt: deps.now(),
    language: null,
    timeZone: null,
  });
  expect(await rows()).toEqual([
    {
      id: user.id,
      email: "anna.smith@example.com",
      first_name: "Anna",
      last_name: "Smith",
      role: "USER",
      status: "active",
      password_hash: expect.stringMatching(/^\$argon2id\$v=19\$m=256,t=1,p=1\$/),
      email_verified: false,
      has_second_factor: false,
      last_login_at: null,
      language: null,
      time_zone: null,
      created_at: deps.now(),
      updated_at: deps.now(),
      session_epoch: 0,
      must_change_password: false,
      password_epoch: 0,
      first_login_at: null,
      credentials_proven_email: null,
      credentials_proven_at: null,
      searched: " anna.smith@example.com anna smith anna smithannasmith",
    },
  ]);
});

test("without disclosure, writing takes at least 50 ms, for a new and for a taken address", async () => {
  const hashed = { hash: async () => "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$aGFzaA" };
  const passwords = { ...deps.passwords, ...hashed };
  const quiet = { ...deps, passwords, registrationDiscloses: false };
  for (let round = 0; round < 3; round += 1) {
    const startedMs = performance.now();
    await register(quiet, ANNA, soon());
    expect(performance.now() - startedMs).toBeGreaterThanOrEqual(49);
  }
});

test("a network over its budget is refused before any hash, and no other is", async () => {
  const limits = throttleLimits({ network: 100, everything: 100, callsOfNetwork: 3 });
  const limited = { ...deps, throttle: new MemoryThrottle({ limits, now: () => deps.now().getTime() }) };
  deps.argon2.hash.mockClear();
  const attempts = Array.from({ length: 20 }, (_, index) =>
    register(limited, { ...ANNA, email: `anna${index}@example.com`, clientIp: `2001:db8::${index}` }, soon()),
  );
  const settled = await Promise.allSettled(attempts);
  expect(settled.filter(({ status }) => status === "fulfilled")).toHaveLength(3);
  expect(settled.at(-1)).toMatchObject({
    reason: { code: "too_many_requests", retryAfterMs: 300_000, limit: 3 },
  });
  expect(deps.argon2.hash).toHaveBeenCalledTimes(3);
  await register(limited, { ...ANNA, clientIp: "2001:db8:0:1::1" }, soon());
});

test("a network that registers many at once leaves half of the hash queue to others", async () => {
  // No hash ends before all have come, else a later one gets the share that an earlier one gave back.
  const mayEnd = Promise.withResolvers<void>();
  const hash: typeof deps.passwords.hash = async (...work) => {
    await mayEnd.promise;
    return deps.passwords.hash(...work);
  };
  const hashShare = createHashShare({ maxOfNetwork: 2, maxOfStrangers: 1_000 });
  const limited = { ...deps, hashShare, passwords: { ...deps.passwords, hash } };
  const refused: unknown[] = [];
  const attempts = Array.from({ length: 10 }, (_, index) =>
    register(limited, { ...ANNA, email: `anna${index}@example.com`, clientIp: "192.0.2.1" }, soon()).catch(
      (error) => void refused.push(error),
    ),
  );
  const other = register(limited, { ...ANNA, clientIp: "192.0.2.2" }, soon());
  await vi.waitFor(() => expect(refused).toHaveLength(8), { timeout: 60_000 });
  mayEnd.resolve();
  await Promise.all(attempts);
  expect(refused).toEqual(Array(8).fill(expect.objectContaining({ code: "busy" })));
  await other;
});

test("a taken address is refused in any spelling, costs a hash, and changes nothing", async () => {
  await register(deps, ANNA, soon());
  const before = await rows();
  deps.argon2.hash.mockClear();
  const again = register(deps, { ...ANNA, email: "ANNA.smith@example.com", firstName: "Eve" }, soon());
  await expect(again).rejects.toMatchObject({ code: "email_already_registered" });
  expect(deps.argon2.hash).toHaveBeenCalledTimes(1);
  expect(await rows()).toEqual(before);
});

test("twenty registrations of one address race: one account, nineteen refusals", async () => {
  const results = await Promise.allSettled(
    Array.from({ length: 20 }, (_, index) => register(deps, { ...ANNA, firstName: `Anna ${index}` }, soon())),
  );
  const winners = results.filter((result) => result.status === "fulfilled");
  const refusals = results.flatMap((result) =>
    result.status === "rejected" ? [(result.reason as DomainError).code] : [],
  );
  expect(winners).toHaveLength(1);
  expect(refusals).toEqual(Array.from({ length: 19 }, () => "email_already_registered"));
  expect(await rows()).toMatchObject([{ id: winners[0]?.value.id, first_name: winners[0]?.value.firstName }]);
});

test("every failing field is listed, and nothing is hashed", async () => {
  deps.argon2.hash.mockClear();
  const wrong = register(deps, { email: "anna", password: "x", firstName: "", lastName: "a\u0000" }, soon());
  await expect(wrong).rejects.toMatchObject({
    code: "validation_failed",
    fields: [
      { field: "email", code: "invalid_format", message: "must be an e-mail address" },
      { field: "firstName", code: "too_short" },
      { field: "lastName", code: "invalid_format" },
    ],
  });
  expect(deps.argon2.hash).not.toHaveBeenCalled();
});

test("with SMTP_UTF8=false an address that no mail can be sent to is refused, taken or not, and nothing is made", async () => {
  await register(deps, { ...ANNA, email: "jürgen@example.com" }, soon());
  const [withoutUtf8, before] = [{ ...deps, smtpUtf8: false }, await rows()];
  for (const email of ["jürgen@example.com", "JÜRGEN@example.com", "田中@example.com"]) {
    await expect(register(withoutUtf8, { ...ANNA, email }, soon())).rejects.toMatchObject({
      code: "validation_failed",
      fields: [
        {
          field: "email",
          code: "invalid_format",
          message: expect.stringContaining("ASCII characters before"),
        },
      ],
    });
  }
  expect(await rows()).toEqual(before);
  const { email } = await register(withoutUtf8, { ...ANNA, email: "anna@bücher.example" }, soon());
  expect(email).toBe("anna@xn--bcher-kva.example");
});

test.each([
  ["short", "password_too_short"],
  ["password1", "password_too_common"],
  ["I am anna.smith!", "password_contains_email"],
])("the password %j is refused: %s", async (password, code) => {
  await expect(register(deps, { ...ANNA, password }, soon())).rejects.toMatchObject({ code });
  expect(await rows()).toEqual([]);
});

test("names and addresses with quotes and SQL in them are stored as they are", async () => {
  const user = await register(
    deps,
    { ...ANNA, email: "o'brien@example.com", lastName: "O'Brien'); drop table users; --" },
    soon(),
  );
  expect(await rows()).toMatchObject([{ email: user.email, last_name: "O'Brien'); drop table users; --" }]);
});

test("the database refuses rows that the service would never write", async () => {
  const insert = (change: Record<string, unknown>) => {
    const row = {
      id: deps.newId(),
      email: "a@b.co",
      first_name: "A",
      last_name: "B",
      role: "USER",
      status: "active",
      password_hash: null,
      email_verified: false,
      created_at: deps.now(),
      updated_at: deps.now(),
      ...change,
    };
    return database.ownerSql`insert into users ${database.ownerSql(row)}`;
  };
  for (const change of [
    { email: "A@b.co" },
    { email: "a@B.co" },
    { email: "a@b@c.co" },
    { email: "a b@c.co" },
    { email: "a@localhost" },
    { first_name: "" },
    { last_name: "x".repeat(101) },
    { role: "root" },
    { status: "deleted" },
    { password_hash: "plain text" },
    { updated_at: new Date(0) },
  ]) {
    await expect(insert(change), JSON.stringify(change)).rejects.toMatchObject({ code: "23514" });
  }
});

test("the service's role can neither change which user a row is nor empty the table", async () => {
  const { sql } = database;
  await register(deps, ANNA, soon());
  for (const statement of [
    sql`update users set id = ${deps.newId()}`,
    sql`update users set created_at = now()`,
    sql`truncate users`,
    sql`drop table users`,
  ]) {
    await expect(statement).rejects.toMatchObject({ code: "42501" });
  }
});

test.each(["\uff41nna.smith@example.com", "u\u017fer@example.com"])(
  "%s looks like another address: refused",
  async (email) => {
    await expect(register(deps, { ...ANNA, email }, soon())).rejects.toMatchObject({
      code: "validation_failed",
      fields: [{ field: "email" }],
    });
  },
);

test.each([
  ["firstName", { firstName: "" }],
  ["lastName", { lastName: "a\u200b" }],
  ["email", { email: "anna" }],
])("a registration whose %s alone is bad names it alone", async (field, bad) => {
  await expect(register(deps, { ...ANNA, ...bad }, soon())).rejects.toMatchObject({
    code: "validation_failed",
    fields: [{ field }],
  });
});

test.each(["", "  "])("a person with one name registers with it: the last name is %j", async (lastName) => {
  expect(await register(deps, { ...ANNA, lastName }, soon())).toMatchObject({
    firstName: "Anna",
    lastName: "",
  });
  expect(await rows()).toMatchObject([{ first_name: "Anna", last_name: "" }]);
});

const released = (email: string, ms: number) =>
  database.ownerSql`
    insert into released_addresses (email_digest, until)
    values (${createHash("sha256").update(email).digest()}, ${new Date(deps.now().getTime() + ms)})`;
const outbox = () =>
  database.ownerSql`
    select id, user_id, template, recipient, data, given_up_at is null as "isDue" from mail_outbox
    where template <> 'verify-email' order by given_up_at nulls first`;

test("a registration mails the link that proves the address, and is recorded without an actor", async () => {
  deps.wakeMailWorker.mockClear();
  const spend = vi.spyOn(deps.throttle, "spend");
  const { id } = await register(deps, { ...ANNA, clientIp: "192.0.2.1" }, soon());
  expect(spend).toHaveBeenCalledExactlyOnceWith(
    expect.objectContaining({ kind: "register", clientIp: "192.0.2.1" }),
  );
  spend.mockRestore();
  expect(await database.ownerSql`select user_id, template, recipient, data from mail_outbox`).toEqual([
    {
      user_id: id,
      template: "verify-email",
      recipient: "anna.smith@example.com",
      data: { link: expect.stringMatching(/^verify_email:/) },
    },
  ]);
  expect(await database.ownerSql`select purpose from links`).toEqual([{ purpose: "verify_email" }]);
  expect(await database.ownerSql`select type, user_id, actor_id, ip from security_events`).toEqual([
    { type: "user_registered", user_id: id, actor_id: null, ip: "192.0.2.1" },
  ]);
  expect(deps.wakeMailWorker).toHaveBeenCalledOnce();
});

test("a registration without the client's address is recorded without one", async () => {
  await register(deps, ANNA, soon());
  expect(await database.ownerSql`select type, ip from security_events`).toEqual([
    { type: "user_registered", ip: "" },
  ]);
});

test("an address that was released lately is taken until its time is over", async () => {
  await released("anna.smith@example.com", 1);
  await expect(register(deps, ANNA, soon())).rejects.toMatchObject({ code: "email_already_registered" });
  expect(await database.ownerSql`select from mail_outbox`).toHaveLength(0);
  await database.ownerSql`update released_addresses set until = ${deps.now()}`;
  await register(deps, ANNA, soon());
});

test("a registration waits for other transactions about its address", async () => {
  const held = await transaction(database.ownerSql, async (tx) => {
    await lockAddresses(tx, ["anna.smith@example.com"]);
    let outcome = "";
    const registered = register(deps, ANNA, soon())
      .then(() => "done")
      .catch((error: DomainError) => error.code)
      .then((code) => {
        outcome = code;
      });
    // On a slow machine the wait may be over, in vain, before it is seen.
    const state = async () => outcome || ((await database.waitingForLocks()) === 1 ? "waits" : "");
    await expect.poll(state, { interval: 5 }).toMatch(/^(waits|service_unavailable)$/);
    return { registered };
  });
  await held.registered;
});

describe("where the answer must not disclose it", () => {
  const quietly = (changes: Partial<Registration> = {}) =>
    register({ ...deps, registrationDiscloses: false }, { ...ANNA, ...changes }, soon());

  test("the owner of a taken address gets a mail at most once an hour; otherwise the commit writes a row without a mail", async () => {
    const { id } = await register(deps, ANNA, soon());
    const answer = await quietly({ firstName: "Eve" });
    expect(answer).toMatchObject({ email: "anna.smith@example.com", firstName: "Eve", emailVerified: false });
    expect(answer.id).not.toBe(id);
    await quietly();
    const notice = { user_id: id, template: "registration-attempt" };
    expect(await outbox()).toEqual([
      {
        ...notice,
        id: noticeId("registration-attempt", id, deps.now()),
        recipient: "anna.smith@example.com",
        data: { occurredAt: "2031-01-02T03:04:05.678Z" },
        isDue: true,
      },
      { ...notice, id: expect.any(String), recipient: null, data: null, isDue: false },
    ]);
    expect(await rows()).toMatchObject([{ id, first_name: "Anna" }]);
  });

  test("the owner of a disabled account gets no mail", async () => {
    await register(deps, ANNA, soon());
    await database.ownerSql`update users set status = 'disabled'`;
    await quietly();
    expect(await outbox()).toMatchObject([
      { template: "registration-attempt", recipient: null, isDue: false },
    ]);
  });

  test("an address that was released lately gets the answer of any other, and no account", async () => {
    await released("anna.smith@example.com", 1);
    const answer = await quietly();
    expect(await rows()).toEqual([]);
    expect(await outbox()).toMatchObject([{ user_id: answer.id, recipient: null, isDue: false }]);
  });
});
