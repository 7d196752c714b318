import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { parseAccessFile } from "#access-file/access-file.ts";
import { AccessTable } from "#access-file/access-rules.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { deleteAccount, deleteUnusedAccounts } from "../accounts/delete-account.ts";
import { register } from "../accounts/register.ts";
import { deleteUser } from "../admin/delete-user.ts";
import { setUserAccess } from "../admin/set-user-access.ts";
import { ANNA, sessionAt, soon, startWithAnna, type TestDeps } from "../testing/test-deps.ts";
import { addCredential } from "./add-credential.ts";
import { verifyApiKey } from "./api-keys.ts";
import { createClient } from "./create-client.ts";
import { createClientEndWorker } from "./end-client-tokens.ts";
import { getClient, listClients } from "./managed-clients.ts";

let database: TestDatabase;
let deps: TestDeps;
let ownerId: string;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
beforeEach(async () => {
  await emptyTables(database.ownerSql, "clients", "client_ends");
  const started = await startWithAnna(database);
  deps = { ...started.deps, now: () => new Date() };
  ownerId = started.userId;
});
afterAll(() => database.drop());

const context = (role = "ADMIN") => ({
  ...newCallContext({ budgetMs: 60_000 }),
  actor: { userId: randomUUID(), role, sessionId: randomUUID() },
});
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => "done",
    (error: DomainError) => error.code,
  );
async function shop(name: string, owner = ownerId) {
  const { id } = await createClient(
    deps,
    { name, ownerId: owner, permissions: ["payments:read"] },
    context(),
  );
  const wanted = { clientId: id, kind: "api_key", name: "", publicJwkJson: "" } as const;
  const { credential, secret } = await addCredential(deps, wanted, context());
  return { id, credentialId: credential.id, secret };
}
const isLive = async (secret: string) => (await verifyApiKey(deps, secret)) !== undefined;
const recorded = async (clientId: string) =>
  (
    await database.ownerSql<{ reason: string }[]>`
    select reason from security_events where user_id = ${clientId} and type = 'client_changed' order by id`
  ).map(({ reason }) => reason);
const disable = (change: { disableClients?: boolean } = {}, by = context()) =>
  setUserAccess(deps, { userId: ownerId, status: "disabled", ...change }, by);

const WAYS = {
  disabled: (disableClients: boolean) => disable({ disableClients }),
  deleted: (disableClients: boolean) => deleteUser(deps, ownerId, context(), { disableClients }),
};

test.each(["disabled", "deleted"] as const)(
  "whoever has a user %s is shown the clients, which go on working; each is in the audit log",
  async (way) => {
    const [first, second] = [await shop("first"), await shop("second")];
    const { clients } = await WAYS[way](false);
    expect(clients).toMatchObject([
      { id: second.id, name: "second", status: "active" },
      { id: first.id, name: "first", status: "active" },
    ]);
    for (const { id, secret } of [first, second]) {
      expect(await isLive(secret)).toBe(true);
      expect(await recorded(id)).toEqual(["owner leaves"]);
    }
    expect(deps.tokenService.revokeClientTokens).not.toHaveBeenCalled();
  },
);

test.each(["disabled", "deleted"] as const)(
  "or has them disabled with the user, who is %s: their keys and tokens end, those of others do not",
  async (way) => {
    const other = await register(deps, { ...ANNA, email: "bob@example.com" }, soon());
    const [mine, theirs] = [await shop("mine"), await shop("theirs", other.id)];
    const { clients } = await WAYS[way](true);
    expect(clients).toMatchObject([{ id: mine.id, status: "disabled" }]);
    expect([await isLive(mine.secret), await isLive(theirs.secret)]).toEqual([false, true]);
    expect(deps.tokenService.revokeClientTokens).toHaveBeenCalledExactlyOnceWith(
      [mine.credentialId],
      expect.anything(),
    );
    expect((await getClient(deps, mine.id)).credentials[0]?.id).not.toBe(mine.credentialId);
    expect(await recorded(mine.id)).toEqual(["status disabled, owner leaves"]);
    expect(await recorded(theirs.id)).toEqual([]);
  },
);

test("a disable that is repeated shows them again, and may disable them then; enabling the user enables none", async () => {
  const { id, secret } = await shop("shop");
  await disable();
  expect((await disable()).clients).toMatchObject([{ id }]);
  expect(await recorded(id)).toEqual(["owner leaves"]);
  expect((await disable({ disableClients: true })).clients).toMatchObject([{ id, status: "disabled" }]);
  expect((await disable({ disableClients: true })).clients).toEqual([]);
  await setUserAccess(deps, { userId: ownerId, status: "active" }, context());
  expect(await isLive(secret)).toBe(false);
  expect(await recorded(id)).toEqual(["owner leaves", "status disabled"]);
});

test("disabling them needs clients:write, and goes with a disable only; otherwise nothing has changed", async () => {
  const { secret } = await shop("shop");
  const access = new AccessTable(
    parseAccessFile(`
      roles: { ADMIN: ["*"], USER: [], HR: [users:write, users:delete] }
      defaultRole: USER`),
  );
  const limited = { ...deps, access };
  const end = { userId: ownerId, status: "disabled", disableClients: true } as const;
  expect(await codeOf(setUserAccess(limited, end, context("HR")))).toBe("forbidden");
  expect(await codeOf(deleteUser(limited, ownerId, context("HR"), { disableClients: true }))).toBe(
    "forbidden",
  );
  expect(await codeOf(setUserAccess(deps, { userId: ownerId, disableClients: true }, context()))).toBe(
    "validation_failed",
  );
  expect(await isLive(secret)).toBe(true);
  expect(
    (await setUserAccess(limited, { ...end, disableClients: false }, context("HR"))).clients,
  ).toHaveLength(1);
});

test("of more than a hundred, a hundred are shown, and none is disabled", async () => {
  for (let index = 0; index < 101; index += 1) await shop(`shop ${index}`);
  expect(await codeOf(disable({ disableClients: true }))).toBe("conflict");
  const [user] = await database.ownerSql`select status from users where id = ${ownerId}`;
  expect(user?.status).toBe("active");
  const { clients } = await disable();
  expect(clients).toHaveLength(100);
  expect((await listClients(deps, { owner: "none", cursor: "", limit: 100 })).nextCursor).toBeDefined();
});

test("while token-service is away they are disabled all the same, and a worker ends their tokens", async () => {
  const { credentialId, secret } = await shop("shop");
  deps.tokenService.revokeClientTokens.mockRejectedValueOnce(new DomainError("service_unavailable"));
  expect(await codeOf(disable({ disableClients: true }))).toBe("service_unavailable");
  expect(await isLive(secret)).toBe(false);
  const later = { ...deps, now: () => new Date(Date.now() + 2_500) };
  await createClientEndWorker(later, createMetrics("test")).poll();
  expect(deps.tokenService.revokeClientTokens).toHaveBeenLastCalledWith([credentialId], expect.anything());
});

test("a user who leaves by themselves leaves a trace at each client; one who never came and owns one stays", async () => {
  const { id } = await shop("shop");
  const request = { userId: ownerId, password: ANNA.password, clientIp: "" };
  await database.ownerSql`
    update users set email_verified = false, first_login_at = null, created_at = now() - interval '1 year'`;
  await deleteUnusedAccounts({ ...deps, unusedAccountDays: 90 });
  expect((await getClient(deps, id)).client.ownerId).toBe(ownerId);
  await deleteAccount(deps, { ...sessionAt(deps), ...request }, newCallContext({ budgetMs: 60_000 }));
  expect((await getClient(deps, id)).client).toMatchObject({ ownerId: null, status: "active" });
  expect(await recorded(id)).toEqual(["owner leaves"]);
});
