import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { transaction } from "#kit/database/postgres.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { completeLogin } from "../login/complete-login.ts";
import { startWithAnna, type TestDeps } from "../testing/test-deps.ts";
import type { Account } from "../users/account.ts";
import { getAccount } from "../users/get-account.ts";
import { endOwnSessions, endSessions, owesSessionEnd } from "./end-sessions.ts";
import { createSessionEndWorker } from "./session-end-worker.ts";

let database: TestDatabase;
let deps: TestDeps;
let userId: string;
let anna: Account;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
beforeEach(async () => {
  ({ deps, userId } = await startWithAnna(database));
  anna = await getAccount(deps, userId);
});
afterAll(() => database.drop());

const owe = () =>
  transaction(deps.sql, (tx) => owesSessionEnd(tx, deps, { userId, reason: "password_reset" }));
const owed = () => database.ownerSql`select * from session_ends`;
const later = (ms: number) => ({ ...deps, now: () => new Date(deps.now().getTime() + ms) });
/** The end of a login whose password was right when the account's epoch was this. */
async function complete(sessionEpoch: number) {
  const shown = { user: { ...anna, sessionEpoch }, amr: ["pwd"], authTime: deps.now() };
  const origin = { clientIp: "", userAgent: "", deviceToken: "" };
  return completeLogin(
    deps,
    { ...shown, ifEnded: "mfa_token_invalid" },
    origin,
    newCallContext({ budgetMs: 60_000 }),
  );
}

test("a worker ends the sessions that a crash left, once the call cannot be running any more", async () => {
  await owe();
  await createSessionEndWorker(later(1_999), createMetrics("test")).poll();
  expect(deps.tokenService.revokeUserSessions).not.toHaveBeenCalled();
  await createSessionEndWorker(later(2_000), createMetrics("test")).poll();
  expect(deps.tokenService.revokeUserSessions).toHaveBeenCalledExactlyOnceWith(
    { userId, exceptSessionId: null, reason: "password_reset", begunBefore: deps.now() },
    expect.anything(),
  );
  expect(await owed()).toEqual([]);
});

test("an end that follows its cause at once ends every session, however late its clock says that it began", async () => {
  await endSessions(deps, await owe(), newCallContext({ budgetMs: 60_000 }));
  expect(deps.tokenService.revokeUserSessions).toHaveBeenCalledExactlyOnceWith(
    { userId, exceptSessionId: null, reason: "password_reset" },
    expect.anything(),
  );
});

test("a worker goes on until token-service has confirmed it, also for an account that is gone", async () => {
  await owe();
  await database.ownerSql`delete from users`;
  deps.tokenService.revokeUserSessions.mockRejectedValue(new DomainError("service_unavailable"));
  await createSessionEndWorker(later(2_000), createMetrics("test")).poll();
  expect(await owed()).toHaveLength(1);
  deps.tokenService.revokeUserSessions.mockResolvedValue([]);
  await createSessionEndWorker(later(6_999), createMetrics("test")).poll();
  expect(await owed()).toHaveLength(1);
  await createSessionEndWorker(later(7_000), createMetrics("test")).poll();
  expect(await owed()).toEqual([]);
});

test("two workers do not do the same", async () => {
  await owe();
  await Promise.all([1, 2].map(() => createSessionEndWorker(later(2_000), createMetrics("test")).poll()));
  expect(deps.tokenService.revokeUserSessions).toHaveBeenCalledTimes(1);
});

test("a login in progress while sessions ended gets no session", async () => {
  expect(await complete(0)).toMatchObject({ kind: "completed", tokens: { userId } });
  await endSessions(deps, await owe(), newCallContext({ budgetMs: 60_000 }));
  const late = complete(0);
  await expect(late).rejects.toMatchObject({ code: "mfa_token_invalid" });
  const issued = await deps.tokenService.issueSession.mock.results.at(-1)?.value;
  expect(deps.tokenService.revokeSession).toHaveBeenCalledExactlyOnceWith(
    { sessionId: issued?.sessionId, userId, reason: "credentials_changed" },
    expect.anything(),
  );
  expect(await complete(1)).toMatchObject({ kind: "completed", tokens: { userId } });
});

test.each([
  { exceptSessionId: "", kept: null },
  { exceptSessionId: "019a0000-0000-7000-8000-0000000000aa", kept: "019a0000-0000-7000-8000-0000000000aa" },
])(
  "logging out everywhere except '$exceptSessionId' cancels logins in progress too",
  async ({ exceptSessionId, kept }) => {
    deps.tokenService.revokeUserSessions.mockResolvedValueOnce(["s1"]);
    const ended = await endOwnSessions(
      deps,
      { userId, exceptSessionId },
      newCallContext({ budgetMs: 60_000 }),
    );
    expect(ended).toEqual({ userId, sessionIds: ["s1"] });
    expect(deps.tokenService.revokeUserSessions.mock.lastCall?.[0]).toMatchObject({
      userId,
      exceptSessionId: kept,
      reason: "logout",
    });
    expect(await owed()).toEqual([]);
    const late = complete(0);
    await expect(late).rejects.toMatchObject({ code: "mfa_token_invalid" });
  },
);

test("logging out everywhere while token-service is away fails, and the sessions end when it is back", async () => {
  deps.tokenService.revokeUserSessions.mockRejectedValueOnce(new DomainError("service_unavailable"));
  const late = endOwnSessions(deps, { userId, exceptSessionId: "" }, newCallContext({ budgetMs: 60_000 }));
  await expect(late).rejects.toMatchObject({ code: "service_unavailable" });
  expect(await owed()).toHaveLength(1);
  await createSessionEndWorker(later(2_000), createMetrics("test")).poll();
  expect(await owed()).toEqual([]);
});

test.each(["delete from users", "update users set status = 'disabled'"])(
  "a login in progress gets no session after: %s",
  async (statement) => {
    await database.ownerSql.unsafe(statement);
    const late = complete(0);
    await expect(late).rejects.toMatchObject({ code: "mfa_token_invalid" });
    expect(deps.tokenService.revokeSession).toHaveBeenCalledTimes(1);
  },
);
