import bcryptjs from "bcryptjs";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { transaction } from "#kit/database/postgres.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { register } from "../accounts/register.ts";
import { findTotpCredential } from "../mfa/mfa-store.ts";
import { openTotpSecret } from "../mfa/totp-secret.ts";
import { withPepperId } from "../passwords/stored-hash.ts";
import { asOperator, soon, startWithAnna, type TestDeps } from "../testing/test-deps.ts";
import { beginImport } from "./begin-import.ts";
import { completeImport } from "./complete-import.ts";
import { importRows } from "./import-rows.ts";
import type { ReportedUser } from "./judge-row.ts";
import { deleteOldImports, listImportedRows } from "./list-imported-rows.ts";

let database: TestDatabase;
let deps: TestDeps & { relyingParties: Map<string, never> };
let anna: string;

beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
afterAll(() => database.drop());
beforeEach(async () => {
  await database.ownerSql`delete from imports`;
  const start = await startWithAnna(database);
  const google = { issuer: "https://accounts.google.com" } as never;
  const relyingParties = new Map([
    ["google", google],
    ["google-app", google],
  ]);
  deps = { ...start.deps, relyingParties };
  anna = start.userId;
  await database.ownerSql`delete from security_events`;
});

const HASH = bcryptjs.hashSync("a password", 4);

function user(email: string, reported: Partial<ReportedUser> = {}): ReportedUser {
  return {
    email,
    emailVerified: true,
    firstName: "Ada",
    lastName: "Lovelace",
    name: "",
    passwordHash: HASH,
    role: "",
    disabled: false,
    mustChangePassword: false,
    identities: [],
    totpSecret: new Uint8Array(0),
    language: "",
    ...reported,
  };
}

async function begin(file = 1) {
  const key = { fileSha256: Buffer.alloc(32, file), source: "ndjson", settings: "{}" };
  return beginImport(deps, key, asOperator());
}

const send = (importId: string, firstRow: number, ...rows: (ReportedUser | string)[]) =>
  importRows(deps, { importId, firstRow, rows }, asOperator());
const rowsOf = async (importId: string) => (await listImportedRows(deps, { importId, firstRow: 1 })).rows;
const emails = async () =>
  (await database.ownerSql`select email from users where id <> ${anna} order by email`).map(
    ({ email }) => email,
  );

test("rows are stored once, however often and in whatever order they are sent", async () => {
  const { id } = await begin();
  const batch = [user("a@example.com"), "row_invalid", user("b@example.com")];
  expect(await send(id, 4, user("late@example.com"))).toBe(1);
  expect(await send(id, 1, ...batch)).toBe(4);
  expect(await send(id, 1, ...batch)).toBe(4);
  expect(await begin()).toMatchObject({ id, nextRow: 4 });
  expect(await send(id, 4, user("c@example.com"))).toBe(5);
  expect(await emails()).toEqual(["a@example.com", "b@example.com", "c@example.com"]);
  expect((await rowsOf(id)).map(({ refusal }) => refusal)).toEqual(["", "row_invalid", "", ""]);
});

test("the language of mails is kept as a tag, and another text is none", async () => {
  const { id } = await begin();
  const languages = ["pt-br", "", "Deutsch!"];
  await send(id, 1, ...languages.map((language, at) => user(`u${at}@example.com`, { language })));
  const stored = await database.ownerSql`select language from users where id <> ${anna} order by email`;
  expect(stored.map(({ language }) => language)).toEqual(["pt-BR", null, null]);
});

test("ten senders of the same rows race: each row is one user, recorded once", async () => {
  const { id } = await begin();
  const rows = Array.from({ length: 50 }, (_, index) => user(`u${index}@example.com`));
  await Promise.all(Array.from({ length: 10 }, () => send(id, 1, ...rows)));
  expect(await emails()).toHaveLength(50);
  expect(await rowsOf(id)).toHaveLength(50);
  const recorded = await database.ownerSql`select count(*)::int, count(distinct user_id)::int as users
    from security_events where type = 'imported'`;
  expect(recorded).toEqual([{ count: 50, users: 50 }]);
});

test("two files with the same addresses race: each address is one user, refused in the other file", async () => {
  const [one, other] = [await begin(1), await begin(2)];
  const addresses = Array.from({ length: 50 }, (_, index) => `u${index}@example.com`);
  const forwards = addresses.map((email) => user(email));
  await Promise.all([send(one.id, 1, ...forwards), send(other.id, 1, ...forwards.toReversed())]);
  expect(await emails()).toEqual(addresses.toSorted());
  const refusals = [...(await rowsOf(one.id)), ...(await rowsOf(other.id))].map(({ refusal }) => refusal);
  expect(refusals.filter((refusal) => refusal === "address_taken")).toHaveLength(50);
  expect(refusals.filter((refusal) => refusal === "")).toHaveLength(50);
});

test("an import and a registration of the same address race: one of them has it", async () => {
  const { id } = await begin();
  const rows = Array.from({ length: 20 }, (_, index) => user(`u${index}@example.com`));
  const people = rows.map(({ email }) => ({
    email,
    password: "Password123!",
    firstName: "R",
    lastName: "R",
  }));
  const registrations = people.map((person) =>
    register(deps, person, soon())
      .then(() => 1)
      .catch(() => 0),
  );
  const [, ...registered] = await Promise.all([send(id, 1, ...rows), ...registrations]);
  const imported = (await rowsOf(id)).filter(({ refusal }) => refusal === "").length;
  expect(imported + registered.reduce((sum, each) => sum + each, 0)).toBe(20);
  expect(await emails()).toHaveLength(20);
});

test("a hash that another Gatehouse's pepper went into is refused, and one without is kept as it is", async () => {
  const { id } = await begin();
  const salt = Buffer.alloc(16, 1).toString("base64").replaceAll("=", "");
  const longSalt = Buffer.alloc(18, 1).toString("base64");
  const output = Buffer.alloc(32, 2).toString("base64").replaceAll("=", "");
  const own = `$argon2id$v=19$m=4096,t=1,p=1$${salt}$${output}`;
  const pepper = (hash: string) => withPepperId(hash, "AAAAAAAAAAA");
  await send(
    id,
    1,
    user("a@example.com", { passwordHash: pepper(own) }),
    user("b@example.com", { passwordHash: own }),
    user("c@example.com", { passwordHash: pepper(own.replace(salt, longSalt)) }),
  );
  expect((await rowsOf(id)).map(({ refusal }) => refusal)).toEqual([
    "hash_format_unknown",
    "",
    "hash_format_unknown",
  ]);
  const [b] = await database.ownerSql`select password_hash as hash from users where email = 'b@example.com'`;
  expect(b).toEqual({ hash: own });
});

test("existing accounts, reserved addresses and linked identities are left as they are", async () => {
  await database.ownerSql`
    insert into links (id, purpose, user_id, token_hash, new_email, created_at, expires_at)
    values (gen_random_uuid(), 'undo_email_change', ${anna}, ${Buffer.alloc(32)}, 'reserved@example.com', ${deps.now()},
      ${new Date(deps.now().getTime() + 60_000)})`;
  await database.ownerSql`
    insert into external_identities values ('https://accounts.google.com', '1', ${anna}, 'google', null, now())`;
  const before = await database.ownerSql`select * from users where id = ${anna}`;
  const { id } = await begin();
  const google = (subject: string) => ({ identities: [{ provider: "google", subject }] });
  await send(
    id,
    1,
    user("ANNA@example.com", { role: "ADMIN" }),
    user("reserved@example.com"),
    user("a@example.com", google("1")),
    user("b@example.com", google("2")),
    user("c@example.com", google("2")),
  );
  expect((await rowsOf(id)).map(({ refusal }) => refusal)).toEqual([
    "address_taken",
    "address_taken",
    "identity_taken",
    "",
    "identity_taken",
  ]);
  expect(await database.ownerSql`select * from users where id = ${anna}`).toEqual(before);
  expect(await emails()).toEqual(["b@example.com"]);
});

test("one identity by two providers of its issuer refuses its row and no other", async () => {
  const { id } = await begin();
  const at = (provider: string, subject: string) => ({ provider, subject });
  await send(
    id,
    1,
    user("a@example.com", { identities: [at("google", "1"), at("google-app", "1")] }),
    user("b@example.com", { identities: [at("google", "1"), at("google-app", "2")] }),
  );
  expect((await rowsOf(id)).map(({ refusal }) => refusal)).toEqual(["identity_repeated", ""]);
  expect(await emails()).toEqual(["b@example.com"]);
});

test.each([0, 2 ** 31, 2 ** 32 - 1])("no row has the number %d", async (firstRow) => {
  const { id: importId } = await begin();
  await expect(listImportedRows(deps, { importId, firstRow })).rejects.toMatchObject({
    code: "validation_failed",
  });
});

test("an identity that somebody links in the moment of the import refuses its row and no other", async () => {
  const { id } = await begin();
  const google = { identities: [{ provider: "google", subject: "1" }] };
  const linked = Promise.withResolvers<void>();
  const link = transaction(database.ownerSql as never, async (tx) => {
    await tx`insert into external_identities values ('https://accounts.google.com', '1', ${anna}, 'google', null, now())`;
    linked.resolve();
    await expect.poll(database.waitingForLocks).toBe(1);
  });
  await Promise.race([linked.promise, link]);
  const sent = send(id, 1, user("a@example.com", google), user("b@example.com"));
  await Promise.all([link, sent]);
  expect((await rowsOf(id)).map(({ refusal }) => refusal)).toEqual(["identity_taken", ""]);
  expect(await emails()).toEqual(["b@example.com"]);
});

test("a TOTP key is encrypted with our key for its user, and opens as it was", async () => {
  const { id } = await begin();
  const totpSecret = Buffer.from("a key of twenty byte");
  await send(id, 1, user("a@example.com", { totpSecret }));
  const [row] = await rowsOf(id);
  const userId = row?.userId ?? "";
  const sealed = await transaction(database.sql, (tx) => findTotpCredential(tx, userId));
  if (sealed === undefined) throw new Error("no credential");
  expect(openTotpSecret(deps.mfaKeys, userId, sealed)).toEqual(totpSecret);
  expect(() => openTotpSecret(deps.mfaKeys, anna, sealed)).toThrow();
});

test("credentials count as proven only where the other system verified the address and there is a factor or identity", async () => {
  const { id } = await begin();
  const totpSecret = Buffer.alloc(20, 1);
  await send(
    id,
    1,
    user("password@example.com"),
    user("factor@example.com", { totpSecret }),
    user("identity@example.com", { identities: [{ provider: "google", subject: "1" }] }),
    user("unverified@example.com", { emailVerified: false, totpSecret }),
  );
  const proven = await database.ownerSql`
    select email from users where credentials_proven_email = email order by email`;
  expect(proven.map(({ email }) => email)).toEqual(["factor@example.com", "identity@example.com"]);
});

test("while the audit log is behind, rows wait", async () => {
  const { id } = await begin();
  await database.ownerSql`
    insert into security_events (id, type, user_id, reason, ip, user_agent, request_id, trace_id, occurred_at, next_attempt_at)
    select gen_random_uuid(), 'unlocked', ${anna}, '', '', '', 'r', '', now(), now() from generate_series(1, 2001)`;
  await expect(send(id, 1, user("a@example.com"))).rejects.toMatchObject({ code: "busy", retryAfterMs: 250 });
  expect(await emails()).toEqual([]);
  await database.ownerSql`update security_events set recorded_at = now()`;
  expect(await send(id, 1, user("a@example.com"))).toBe(2);
});

test("an import ends when all rows are stored, and then takes no more", async () => {
  const { id } = await begin();
  await send(id, 1, user("a@example.com"), user("x"));
  const complete = (rows: number) => completeImport(deps, { importId: id, rows }, asOperator());
  await expect(complete(3)).rejects.toMatchObject({ code: "conflict" });
  expect(await complete(2)).toEqual({ imported: 1, refused: 1 });
  expect(await complete(2)).toEqual({ imported: 1, refused: 1 });
  expect(await send(id, 3, user("b@example.com"))).toBe(3);
  expect(await emails()).toEqual(["a@example.com"]);
  const ends =
    await database.ownerSql`select count(*)::int from security_events where type = 'import_completed'`;
  expect(ends).toEqual([{ count: 1 }]);
});

test.each([
  ["101 rows", Array.from({ length: 101 }, () => "row_invalid")],
  ["no rows", []],
  ["a reason that could be somebody's name", ["Ada Lovelace"]],
  ["a reason of 65 letters", ["a".repeat(65)]],
])("a call with %s is refused", async (_what, rows) => {
  const { id } = await begin();
  await expect(send(id, 1, ...rows)).rejects.toMatchObject({ code: "validation_failed" });
});

test("an unknown import is not found, and what became of rows is forgotten after 30 days", async () => {
  const missing = { code: "not_found" };
  await expect(send(deps.newId(), 1, user("a@example.com"))).rejects.toMatchObject(missing);
  const { id } = await begin();
  await send(id, 1, user("a@example.com"));
  await deleteOldImports(deps);
  expect(await rowsOf(id)).toHaveLength(1);
  const later = new Date(deps.now().getTime() + 31 * 24 * 3_600_000);
  await deleteOldImports({ ...deps, now: () => later });
  await expect(rowsOf(id)).rejects.toMatchObject(missing);
  await expect(completeImport(deps, { importId: id, rows: 1 }, newCallContext())).rejects.toMatchObject(
    missing,
  );
  expect(await emails()).toEqual(["a@example.com"]);
});
