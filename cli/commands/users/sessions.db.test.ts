import { randomUUID } from "node:crypto";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { noteReadings } from "#audit-client/stream/entry.fixture.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { createTestCertificates, type TestCertificates } from "#tests/support/system/certificates.ts";
import { startTokenServer, type TokenServer } from "#tests/support/system/token-server.ts";
import { logIn, startTokenReplica, type TokenReplica } from "#tests/support/system/token-service.ts";
import { verifyToken } from "#token-service/tokens/verify-token.ts";
import { run } from "../../run.ts";
import { COMMANDS } from "../commands.ts";

let certificates: TestCertificates;
let database: TestDatabase;
let replica: TokenReplica;
let readings: ReturnType<typeof noteReadings>;
let server: TokenServer;

beforeAll(async () => {
  certificates = await createTestCertificates();
});
afterAll(() => certificates.remove());
beforeEach(async () => {
  database = await createTestDatabase("token-service");
  replica = await startTokenReplica(database.sql);
  readings = noteReadings();
  server = await startTokenServer(replica, certificates, 0, readings);
});
afterEach(async () => {
  await server.stop();
  replica.stop();
  await database.drop();
});

async function gatehouse(argv: string[], caller: Parameters<TestCertificates["of"]>[0] = "operator") {
  let [out, error] = ["", ""];
  const code = await run(argv, COMMANDS, {
    environment: { TOKEN_SERVICE_ADDRESS: server.address, ...certificates.environmentOf(caller) },
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

interface Listed {
  sessions: { id: string; ip: string; userAgent: string; amr: string[]; createdAt: string }[];
}

async function listed(userId: string): Promise<Listed["sessions"]> {
  return (JSON.parse((await gatehouse(["sessions", "list", userId, "--json"])).out) as Listed).sessions;
}

const isActive = async (token: string) => (await verifyToken(replica.deps, token)).active;
const events = () => database.ownerSql`
  select type, user_id as "userId", session_id as "sessionId", reason, person from security_events
  where type in ('session_revoked', 'all_sessions_revoked')`;

test("sessions list shows where a user is logged in, without control characters of clients", async () => {
  const userId = randomUUID();
  await logIn(replica, userId);
  await database.ownerSql`update sessions set user_agent = ${"curl\u001b[31m\u202e"}`;
  const [session] = await listed(userId);
  expect(session).toMatchObject({ ip: "192.0.2.1", amr: ["pwd"], createdAt: expect.stringMatching(/Z$/) });
  const { code, out } = await gatehouse(["sessions", "list", userId]);
  expect(code).toBe(0);
  expect(out).toContain(`${session?.id}`);
  expect(out).toContain("curl\ufffd[31m\ufffd");
});

test("sessions revoke ends one session at once and is recorded in the audit log", async () => {
  const userId = randomUUID();
  const [ended, kept] = [await logIn(replica, userId), await logIn(replica, userId)];
  const [, oldest] = await listed(userId);
  const { code, out } = await gatehouse(["sessions", "revoke", userId, oldest?.id ?? ""]);
  expect({ code, out }).toEqual({ code: 0, out: expect.stringMatching(/has ended \(revocation 1\)/) });
  await replica.deps.revocations.refresh();
  expect([await isActive(ended.accessToken), await isActive(kept.accessToken)]).toEqual([false, true]);
  expect(await listed(userId)).toHaveLength(1);
  expect([...(await events())]).toEqual([
    { type: "session_revoked", userId, sessionId: oldest?.id, reason: "operator", person: "operator:tester" },
  ]);
  expect(readings.noted).toMatchObject([
    { action: "session.listed", resource: userId, actor: { userId: "operator:tester" } },
    { action: "session.listed", resource: userId, actor: { userId: "operator:tester" } },
  ]);
});

test("sessions ended by the gateway are recorded only by the gateway", async () => {
  const userId = randomUUID();
  await logIn(replica, userId);
  const [session] = await listed(userId);
  expect(await gatehouse(["sessions", "revoke", userId, session?.id ?? ""], "gateway")).toMatchObject({
    code: 0,
  });
  expect([...(await events())]).toEqual([]);
});

test("sessions revoke-all ends the sessions of all users, bans every key, and reports both", async () => {
  const users = [randomUUID(), randomUUID()];
  const pairs = await Promise.all(users.map((userId) => logIn(replica, userId)));
  const keyIds = replica.deps.keys.list().map(({ id }) => id);
  const argv = [
    "sessions",
    "revoke-all",
    "--issued-before",
    "now",
    "--reason",
    "restored",
    "--yes",
    "--json",
  ];
  const { code, out } = await gatehouse(argv);
  expect(code).toBe(0);
  const result = JSON.parse(out) as { ended: number; bannedKeyIds: string[] };
  expect(result.ended).toBe(2);
  expect(result.bannedKeyIds.toSorted()).toEqual(keyIds.toSorted());
  await replica.deps.revocations.refresh();
  for (const pair of pairs) expect(await isActive(pair.accessToken)).toBe(false);
  for (const userId of users) expect(await listed(userId)).toEqual([]);
  expect([...(await events())]).toEqual([
    {
      type: "all_sessions_revoked",
      userId: null,
      sessionId: null,
      reason: "restored",
      person: "operator:tester",
    },
  ]);
});

test.each([
  ["without --yes", ["--issued-before", "now", "--reason", "r"], /add --yes/],
  [
    "with a day for a moment",
    ["--issued-before", "2026-11-21", "--reason", "r", "--yes"],
    /must be a time like/,
  ],
  [
    "with a time of no zone",
    ["--issued-before", "2026-11-21T09:30:00", "--reason", "r", "--yes"],
    /time like/,
  ],
  ["at a day that is none", ["--issued-before", "2026-02-30T00:00:00Z", "--reason", "r", "--yes"], /or now/],
  [
    "at an hour that is none",
    ["--issued-before", "2026-02-03T24:00:00Z", "--reason", "r", "--yes"],
    /or now/,
  ],
  ["without a reason", ["--issued-before", "now", "--yes"], /Missing: --reason/],
])("sessions revoke-all %s calls no service", async (_how, options, problem) => {
  const pair = await logIn(replica, randomUUID());
  const { code, error } = await gatehouse(["sessions", "revoke-all", ...options]);
  expect({ code, error }).toEqual({ code: 64, error: expect.stringMatching(problem) });
  await replica.deps.revocations.refresh();
  expect(await isActive(pair.accessToken)).toBe(true);
});

test("only an operator may end all sessions", async () => {
  const argv = ["sessions", "revoke-all", "--issued-before", "now", "--reason", "r", "--yes", "--json"];
  const { code, error } = await gatehouse(argv, "gateway");
  expect([code, JSON.parse(error).error.code]).toEqual([1, "caller_not_allowed"]);
  const auditor = await gatehouse(argv, "auditor");
  expect(JSON.parse(auditor.error).error.code).toBe("caller_not_allowed");
});
