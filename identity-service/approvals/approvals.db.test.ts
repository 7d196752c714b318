import { createHash, randomBytes } from "node:crypto";
import { generateSync } from "otplib";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { transaction } from "#kit/database/postgres.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { uuidv7 } from "#kit/values/uuid-v7.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { beginTotpEnrollment } from "../mfa/begin-totp-enrollment.ts";
import { confirmTotpEnrollment } from "../mfa/confirm-totp-enrollment.ts";
import { type Ceremony, TestAuthenticator, UP } from "../passkeys/authenticator.fixture.ts";
import { deletePasskey } from "../passkeys/delete-passkey.ts";
import { beginPasskeyRegistration, registerPasskey } from "../passkeys/register-passkey.ts";
import { endOwnSessions } from "../sessions/end-sessions.ts";
import { beginStepUp } from "../step-up/begin-step-up.ts";
import { completeStepUp } from "../step-up/complete-step-up.ts";
import {
  ANNA,
  proveCredentials,
  sessionAt,
  soon,
  startWithAnna,
  type TestDeps,
} from "../testing/test-deps.ts";
import { approvalTokenHash } from "./approval.ts";
import { recordApproval } from "./approval-events.ts";
import { consumeApproval } from "./approval-store.ts";
import { askApproval } from "./ask-approval.ts";
import { deleteOldApprovals } from "./delete-old-approvals.ts";
import { getApproval, listOwnApprovals } from "./get-approval.ts";
import { listUsedApprovals } from "./list-used-approvals.ts";
import { refuseApproval } from "./refuse-approval.ts";
import { useApproval } from "./use-approval.ts";
import { verifyApproval } from "./verify-approval.ts";

const FROM = { clientIp: "192.0.2.1", userAgent: "curl/8" };
const SESSION = "019a0000-0000-7000-8000-00000000000a";
const OTHER_SESSION = "019a0000-0000-7000-8000-00000000000b";
const TRANSACTION = '{"fields":{"/amount":12500},"method":"POST"}';
const WRONG = "AAAA-AAAA-AAAA-AAAA";
const NO_KEY = new Uint8Array();
const MONTH_S = 31 * 24 * 3_600;

let database: TestDatabase;
let deps: TestDeps;
let userId: string;
let secret: string;
let recoveryCodes: string[];
let nowMs: number;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
beforeEach(async () => {
  await emptyTables(database.ownerSql, "approvals");
  const anna = await startWithAnna(database);
  nowMs = Date.parse("2031-01-02T03:04:05.678Z");
  deps = { ...anna.deps, now: () => new Date(nowMs) };
  userId = anna.userId;
  await proveCredentials(database.ownerSql, userId);
  const { password } = ANNA;
  ({ secret } = await beginTotpEnrollment(deps, { ...sessionAt(deps), userId, password, ...FROM }, soon()));
  const code = codeNow();
  const confirmed = { userId, sessionId: SESSION, code, ...FROM };
  ({ recoveryCodes } = await confirmTotpEnrollment(deps, { ...sessionAt(deps), ...confirmed }, context()));
  pass(60);
  await emptyTables(database.ownerSql, "security_events", "mail_outbox");
});
afterAll(() => database.drop());

const context = () => newCallContext({ budgetMs: 60_000 });
const pass = (seconds: number) => {
  nowMs += seconds * 1_000;
};
const sha256 = (text: string) => createHash("sha256").update(text).digest();
const codeNow = () => generateSync({ secret, epoch: Math.floor(nowMs / 1_000) });
const ask = (change: Partial<Parameters<typeof askApproval>[1]> = {}) =>
  askApproval(
    deps,
    { userId, sessionId: SESSION, transaction: TRANSACTION, acr: 2, ttlS: 300, ...FROM, ...change },
    context(),
  );
const verify = (token: string, code = codeNow(), change: { userId?: string; sessionId?: string } = {}) =>
  verifyApproval(deps, { userId, sessionId: SESSION, token, code, ...FROM, ...change }, context());
const consume = (token: string, change: Partial<Parameters<typeof useApproval>[1]> = {}) => {
  const digest = sha256(TRANSACTION);
  const use = { userId, sessionId: SESSION, digest, acr: 2, idempotencyHash: NO_KEY, ...FROM };
  return useApproval(deps, { ...use, token, ...change }, context());
};
const codeOf = (attempt: Promise<unknown>) =>
  attempt.then(
    () => "done",
    (error: DomainError) => {
      if (error instanceof DomainError) return error.code;
      throw error;
    },
  );
async function given(): Promise<string> {
  const { token } = await ask();
  await verify(token);
  return token;
}
const recorded = () => database.ownerSql`select type, reason, error_code from security_events order by id`;
const stored = async () => (await database.ownerSql`select count(*)::int as count from approvals`)[0]?.count;

test("asked, given by a code, used once", async () => {
  const asked = await ask();
  expect(asked).toEqual({
    approvalId: expect.stringMatching(/^[0-9a-f-]{36}$/),
    token: expect.stringMatching(/^[\w-]{43}$/),
    methods: ["totp", "recovery_code"],
    expiresInS: 300,
  });
  pass(100);
  const { approvalId, ...rest } = await verify(asked.token);
  expect(rest).toEqual({ method: "totp", expiresInS: 200 });
  expect(await consume(asked.token)).toEqual({ approvalId, method: "totp", isRepeated: false });
  expect(await codeOf(consume(asked.token))).toBe("approval_used");

  const digest = sha256(TRANSACTION).toString("hex");
  expect(await recorded()).toEqual([
    { type: "approval_asked", reason: `approval ${approvalId} - ${digest}`, error_code: null },
    { type: "approval_given", reason: `approval ${approvalId} totp ${digest}`, error_code: null },
    { type: "approval_used", reason: `approval ${approvalId} totp ${digest}`, error_code: null },
    {
      type: "approval_refused",
      reason: `approval ${approvalId} totp ${digest}`,
      error_code: "approval_used",
    },
  ]);
  const [row] = await database.ownerSql`select * from approvals`;
  expect(row).toMatchObject({ id: approvalId, transaction_text: TRANSACTION, method: "totp", acr: 2 });
  expect(row?.token_hash).toEqual(sha256(asked.token));
});

test("an end of sessions ends their approvals with its commit, while token-service cannot end the sessions", async () => {
  deps.tokenService.revokeUserSessions.mockRejectedValue(new DomainError("service_unavailable"));
  const [kept, ended, used] = [await given(), await ask({ sessionId: OTHER_SESSION }), await ask()];
  pass(30);
  await verify(ended.token, codeNow(), { sessionId: OTHER_SESSION });
  pass(30);
  await verify(used.token);
  await consume(used.token);
  const end = (exceptSessionId: string) =>
    codeOf(endOwnSessions(deps, { userId, exceptSessionId }, context()));

  expect(await end(SESSION)).toBe("service_unavailable");
  expect(await codeOf(consume(ended.token, { sessionId: OTHER_SESSION }))).toBe("approval_mismatch");
  expect(await consume(kept)).toMatchObject({ method: "totp" });

  pass(30);
  const [refused, open] = [await ask(), await given()];
  await refuseApproval(deps, { userId, approvalId: refused.approvalId, ...FROM }, context());
  expect(await end("")).toBe("service_unavailable");
  expect(await codeOf(consume(open))).toBe("approval_mismatch");
  // What was used is evidence, and what was refused is shown as such.
  const past = await listOwnApprovals(deps, { userId, past: true });
  expect(past.map(({ state }) => state)).toEqual(["refused", "used", "used"]);
});

test("a recovery code gives an approval too, and its owner is notified", async () => {
  const { token } = await ask();
  expect(await verify(token, recoveryCodes[0])).toMatchObject({ method: "recovery_code" });
  expect(await consume(token)).toMatchObject({ method: "recovery_code" });
  const mails = await database.ownerSql`select template from mail_outbox`;
  expect(mails).toEqual([{ template: "recovery-code-used" }]);
});

test("one code gives one approval", async () => {
  const [one, two] = [await ask(), await ask()];
  const code = codeNow();
  await verify(one.token, code);
  expect(await codeOf(verify(two.token, code))).toBe("mfa_code_invalid");
});

test.each([
  ["another digest", { digest: sha256("{}") }, "approval_mismatch"],
  ["a digest cut short", { digest: sha256(TRANSACTION).subarray(0, 31) }, "approval_mismatch"],
  ["another session", { sessionId: OTHER_SESSION }, "approval_mismatch"],
  ["another user", { userId: uuidv7() }, "approval_mismatch"],
  ["another token", { token: randomBytes(32).toString("base64url") }, "approval_mismatch"],
  ["a malformed token", { token: "x" }, "approval_mismatch"],
])("a given approval is refused with %s, recorded, and stays usable", async (_name, change, expected) => {
  const token = await given();
  expect(await codeOf(consume(token, change))).toBe(expected);
  const events = await recorded();
  expect(events.at(-1)).toMatchObject({ type: "approval_refused", error_code: expected });
  await consume(token);
});

test("an approval that was not given lets nothing through", async () => {
  const { token } = await ask();
  expect(await codeOf(consume(token))).toBe("approval_required");
  expect(await codeOf(verify(token, WRONG))).toBe("mfa_code_invalid");
  expect(await codeOf(consume(token))).toBe("approval_required");
});

test("it ends with its time, given or not", async () => {
  const [late, unused] = [await ask(), await given()];
  pass(299);
  expect(await codeOf(consume(late.token))).toBe("approval_required");
  pass(1);
  expect(await codeOf(verify(late.token))).toBe("approval_expired");
  expect(await codeOf(consume(unused))).toBe("approval_expired");
});

test("five attempts, which count as at a login", async () => {
  const { token } = await ask();
  for (let attempt = 0; attempt < 5; attempt += 1) {
    expect(await codeOf(verify(token, WRONG))).toBe("mfa_code_invalid");
  }
  expect(await codeOf(verify(token))).toBe("approval_expired");
  const next = await ask();
  for (let attempt = 0; attempt < 5; attempt += 1) await codeOf(verify(next.token, WRONG));
  const third = await ask();
  expect(await codeOf(verify(third.token))).toBe("too_many_requests");
  const [{ count } = { count: 0 }] = await database.ownerSql`select count(*)::int as count from mfa_failures`;
  expect(count).toBe(10);
});

test("only its own user and session can give it", async () => {
  const { token } = await ask();
  expect(await codeOf(verify(token, codeNow(), { sessionId: OTHER_SESSION }))).toBe("approval_mismatch");
  expect(await codeOf(verify(token, codeNow(), { userId: uuidv7() }))).toBe("approval_mismatch");
  await verify(token);
  pass(60);
  expect(await codeOf(verify(token))).toBe("approval_used");
});

test("the same idempotency key repeats the use for 10 minutes, and nothing else does", async () => {
  const token = await given();
  const key = { idempotencyHash: sha256("key") };
  const first = await consume(token, key);
  pass(600);
  expect(first.isRepeated).toBe(false);
  expect(await consume(token, key)).toEqual({ ...first, isRepeated: true });
  expect(await codeOf(consume(token))).toBe("approval_used");
  expect(await codeOf(consume(token, { idempotencyHash: sha256("other") }))).toBe("approval_used");
  expect(await codeOf(consume(token, { ...key, digest: sha256("{}") }))).toBe("approval_mismatch");
  expect(await codeOf(consume(token, { ...key, sessionId: OTHER_SESSION }))).toBe("approval_mismatch");
  pass(1);
  expect(await codeOf(consume(token, key))).toBe("approval_used");

  const withoutKey = await given();
  await consume(withoutKey);
  expect(await codeOf(consume(withoutKey, key))).toBe("approval_used");
});

test("an approval by a code is not used for a call that demands level 3 by now, nor repeated", async () => {
  const key = { idempotencyHash: sha256("key") };
  const token = await given();
  expect(await codeOf(consume(token, { ...key, acr: 3 }))).toBe("approval_required");
  await consume(token, { ...key, acr: 2 });
  expect(await codeOf(consume(token, { ...key, acr: 3 }))).toBe("approval_required");
  expect(await consume(token, { ...key, acr: 2 })).toMatchObject({ isRepeated: true });
});

test("of a hundred uses at once, one passes", async () => {
  const token = await given();
  const results = await Promise.all(Array.from({ length: 100 }, () => codeOf(consume(token))));
  expect(results.filter((result) => result === "done")).toHaveLength(1);
  expect(results.filter((result) => result === "approval_used")).toHaveLength(99);
});

test("a session has at most ten open: the oldest makes room", async () => {
  const asked = [];
  for (let count = 0; count < 11; count += 1) {
    pass(1);
    asked.push(await ask());
  }
  await ask({ sessionId: OTHER_SESSION });
  expect(await stored()).toBe(11);
  expect(await codeOf(verify(asked[0]?.token ?? ""))).toBe("approval_mismatch");
  await verify(asked[1]?.token ?? "");
});

test("an approval that is used while the eleventh is asked stays as evidence", async () => {
  const token = await given();
  for (let count = 0; count < 9; count += 1) {
    pass(1);
    await ask();
  }
  pass(1);
  const use = { userId, sessionId: SESSION, digest: sha256(TRANSACTION), acr: 2, idempotencyHash: null };
  const tokenHash = approvalTokenHash(token) ?? Buffer.of();
  let eleventh: Promise<unknown> | undefined;
  await transaction(deps.sql, async (tx) => {
    await consumeApproval(tx, { ...use, tokenHash, now: deps.now() });
    eleventh = ask();
    await expect.poll(() => database.waitingForLocks()).toBe(1);
  });
  await eleventh;
  expect(
    (await listUsedApprovals(deps, { limit: 10, from: undefined, to: undefined })).approvals,
  ).toHaveLength(1);
  expect(await stored()).toBe(11);
});

test("without a factor of the level nothing is asked", async () => {
  expect(await codeOf(ask({ acr: 3 }))).toBe("mfa_enrollment_required");
  await database.ownerSql`delete from totp_credentials`;
  expect(await codeOf(ask())).toBe("mfa_enrollment_required");
  expect(await codeOf(ask({ userId: uuidv7() }))).toBe("not_found");
  for (const change of [{ ttlS: 29 }, { ttlS: 901 }, { acr: 1 }, { transaction: "x".repeat(16_385) }]) {
    expect(await codeOf(ask(change))).toBe("validation_failed");
  }
  expect(await stored()).toBe(0);
});

test("a code never gives an approval of level 3", async () => {
  const { token } = await ask();
  await database.ownerSql`update approvals set acr = 3`;
  expect(await codeOf(verify(token))).toBe("mfa_code_invalid");
  expect(await codeOf(consume(token))).toBe("approval_required");
});

test("unused approvals are deleted after a day, evidence never without a retention", async () => {
  await ask();
  await consume(await given());
  pass(24 * 3_600 + 300);
  await deleteOldApprovals({ ...deps, approvalRetentionMonths: 0 });
  expect(await stored()).toBe(2);
  pass(1);
  await deleteOldApprovals({ ...deps, approvalRetentionMonths: 0 });
  expect(await stored()).toBe(1);
  pass(MONTH_S);
  await deleteOldApprovals({ ...deps, approvalRetentionMonths: 0 });
  expect(await stored()).toBe(1);
});

test("evidence is kept for whole months, as long as the audit log keeps its entries", async () => {
  await consume(await given());
  for (const [at, months, left] of [
    ["2031-02-28T23:59:59Z", 1, 1],
    ["2031-03-01T00:00:00Z", 2, 1],
    ["2031-03-31T12:00:00Z", 2, 1],
    ["2031-04-01T00:00:00Z", 2, 0],
  ] as const) {
    nowMs = Date.parse(at);
    await deleteOldApprovals({ ...deps, approvalRetentionMonths: months });
    expect(await stored()).toBe(left);
  }
});

const look = (approvalId: string, change: { userId?: string; sessionId?: string } = {}) =>
  getApproval(deps, { userId, sessionId: SESSION, approvalId, ...change });
const refuse = (approvalId: string, by = userId) =>
  refuseApproval(deps, { userId: by, approvalId, ...FROM }, context());
const stateOf = async (approvalId: string) => (await look(approvalId)).state;

test("its user sees it from any session, without the token, and gives it by its id in the asking one only", async () => {
  const { approvalId, token } = await ask();
  const seen = await look(approvalId);
  expect(seen).toEqual({
    state: "pending",
    transaction: TRANSACTION,
    sessionId: SESSION,
    createdAt: deps.now(),
    expiresAt: new Date(nowMs + 300_000),
    methods: ["totp", "recovery_code"],
    passkey: undefined,
  });
  expect(JSON.stringify(seen)).not.toContain(token);
  expect(await look(approvalId, { sessionId: OTHER_SESSION })).toMatchObject({
    state: "pending",
    methods: [],
  });
  for (const [id, change] of [
    [approvalId, { userId: uuidv7() }],
    [uuidv7(), {}],
    ["x", {}],
  ] as const)
    expect(await codeOf(look(id, change))).toBe("not_found");

  const give = (change: { userId?: string; sessionId?: string; approvalId?: string }) => {
    const attempt = { userId, sessionId: SESSION, token: "", approvalId, code: codeNow(), ...FROM };
    return verifyApproval(deps, { ...attempt, ...change }, context());
  };
  expect(await codeOf(give({ sessionId: OTHER_SESSION }))).toBe("approval_mismatch");
  expect(await codeOf(give({ userId: uuidv7() }))).toBe("approval_mismatch");
  expect(await codeOf(give({ approvalId: "x" }))).toBe("approval_mismatch");
  expect(await stateOf(approvalId)).toBe("pending");
  expect(await give({})).toMatchObject({ approvalId, method: "totp" });
  expect(await look(approvalId)).toMatchObject({ state: "given", methods: [] });
  await consume(token);
  expect(await stateOf(approvalId)).toBe("used");
});

test("what has ended, by its time or by five wrong codes, is shown as expired", async () => {
  const [late, tried] = [await ask(), await ask()];
  for (let attempt = 0; attempt < 5; attempt += 1) await codeOf(verify(tried.token, WRONG));
  expect([await stateOf(tried.approvalId), await stateOf(late.approvalId)]).toEqual(["expired", "pending"]);
  pass(300);
  expect(await stateOf(late.approvalId)).toBe("expired");
});

test("its user lists what waits, of any session, newest first: nothing that was decided or has ended, and nobody else's", async () => {
  const pending = async (by = userId) =>
    (await listOwnApprovals(deps, { userId: by, past: false })).map(({ id }) => id);
  const past = async () =>
    (await listOwnApprovals(deps, { userId, past: true })).map(({ id, state }) => [id, state]);
  expect(await pending()).toEqual([]);
  const [old, refused, given, tried] = [await ask({ ttlS: 30 }), await ask(), await ask(), await ask()];
  pass(1);
  const elsewhere = await ask({ sessionId: OTHER_SESSION });
  await refuse(refused.approvalId);
  await verify(given.token);
  for (let attempt = 0; attempt < 5; attempt += 1) await codeOf(verify(tried.token, WRONG));
  expect(await pending()).toEqual([elsewhere.approvalId, old.approvalId]);
  const decided = [
    [tried.approvalId, "expired"],
    [given.approvalId, "given"],
    [refused.approvalId, "refused"],
  ];
  expect(await past()).toEqual(decided);
  await consume(given.token);
  pass(29);
  expect(await pending()).toEqual([elsewhere.approvalId]);
  decided[1] = [given.approvalId, "used"];
  expect(await past()).toEqual([...decided, [old.approvalId, "expired"]]);
  const ofAnother = await ask();
  await database.ownerSql`update approvals set user_id = ${uuidv7()} where id = ${ofAnother.approvalId}`;
  expect(await pending()).toEqual([elsewhere.approvalId]);
  expect(await past()).toHaveLength(4);
  await database.ownerSql`update users set status = 'disabled' where id = ${userId}`;
  expect([await pending(), await past()]).toEqual([[], []]);
});

test("a refused approval can neither be given nor used, and another user refuses nothing", async () => {
  const [pending, accepted] = [await ask(), await ask()];
  await verify(accepted.token);
  expect(await codeOf(refuse(pending.approvalId, uuidv7()))).toBe("not_found");
  await refuse(pending.approvalId);
  await refuse(accepted.approvalId);
  expect(await stateOf(pending.approvalId)).toBe("refused");
  expect(await stateOf(accepted.approvalId)).toBe("refused");
  pass(60);
  expect(await codeOf(verify(pending.token))).toBe("approval_expired");
  expect(await codeOf(consume(pending.token))).toBe("approval_expired");
  expect(await codeOf(consume(accepted.token))).toBe("approval_expired");
  expect(await codeOf(refuse(pending.approvalId))).toBe("approval_expired");
  const events = await recorded();
  expect(events).toContainEqual({
    type: "approval_refused",
    reason: `approval ${pending.approvalId} - ${sha256(TRANSACTION).toString("hex")}`,
    error_code: null,
  });
  const used = await ask();
  await verify(used.token);
  await consume(used.token);
  expect(await codeOf(refuse(used.approvalId))).toBe("approval_used");
  expect(await codeOf(refuse("x"))).toBe("not_found");
});

test("a refusal and fifty uses at once: one of them counts", async () => {
  const { approvalId, token } = await ask();
  await verify(token);
  const uses = Array.from({ length: 50 }, () => codeOf(consume(token)));
  const [refused, ...results] = await Promise.all([codeOf(refuse(approvalId)), ...uses]);
  const passed = results.filter((result) => result === "done").length;
  expect([refused, passed]).toEqual(refused === "done" ? ["done", 0] : ["approval_used", 1]);
});

test("the service can change neither what was approved nor by whom", async () => {
  await given();
  for (const column of ["transaction_text", "digest", "user_id", "session_id", "token_hash", "expires_at"]) {
    const change = database.sql`update approvals set ${database.sql(column)} = ${database.sql(column)}`;
    await expect(change).rejects.toMatchObject({ code: "42501" });
  }
});

test("used approvals are listed in the order of their use, each once, in pages that fit into a message", async () => {
  const large = `{"fields":{"/note":"${"x".repeat(15_000)}"}}`;
  const transactions = [TRANSACTION, large, large, large, TRANSACTION, TRANSACTION];
  for (const [index, transaction] of transactions.entries()) {
    const { token } = await ask({ transaction, sessionId: SESSION });
    await verify(token);
    // Two at one time.
    pass(index === 4 ? 0 : 60);
    await consume(token, { digest: sha256(transaction) });
    if (index === 4) nowMs += 30_000;
  }
  await given();
  const rows =
    await database.ownerSql`select id from approvals where used_at is not null order by used_at, id`;
  expect(rows).toHaveLength(6);
  const list = (request: object = {}) =>
    listUsedApprovals(deps, { from: undefined, to: undefined, limit: 100, ...request });
  const pagesOf = async (limit: number): Promise<string[][]> => {
    const pages: string[][] = [];
    let cursor: string | undefined;
    do {
      const page = await list({ cursor, limit });
      pages.push(page.approvals.map(({ id }) => id));
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    return pages;
  };
  const ids = rows.map(({ id }) => id);
  expect(await pagesOf(4)).toEqual([ids.slice(0, 3), ids.slice(3)]);
  // Also between the two of one time.
  expect(await pagesOf(1)).toEqual(ids.map((id) => [id]));

  const { approvals } = await list();
  expect(approvals[0]).toMatchObject({
    transactionText: TRANSACTION,
    digest: sha256(TRANSACTION),
    method: "totp",
  });
  const [second] =
    (await database.ownerSql`select used_at from approvals order by used_at offset 1 limit 1`) ?? [];
  expect((await list({ from: second?.used_at })).approvals[0]?.transactionText).toBe(large);
  expect((await list({ to: second?.used_at })).approvals).toHaveLength(1);
  for (const wrong of [{ limit: 0 }, { limit: 101 }, { cursor: "x" }, { cursor: "1.x" }]) {
    expect(await codeOf(list(wrong))).toBe("validation_failed");
  }
});

test("the evidence of a passkey is listed, and the log gets its hash", async () => {
  await given();
  const bytes = (count: number) => Buffer.alloc(count, count);
  const evidence = {
    credentialId: bytes(16),
    publicKey: bytes(77),
    authenticatorData: bytes(37),
    clientData: bytes(90),
    signature: bytes(70),
    passkeyId: SESSION,
    rpId: "pay.example.com",
  };
  await database.ownerSql`
    update approvals set method = 'passkey', used_at = given_at, nonce = ${bytes(32)}, passkey_id = ${SESSION},
      credential_id = ${evidence.credentialId}, public_key = ${evidence.publicKey}, client_data = ${evidence.clientData},
      authenticator_data = ${evidence.authenticatorData}, signature = ${evidence.signature}, rp_id = ${evidence.rpId}`;
  const { approvals } = await listUsedApprovals(deps, { from: undefined, to: undefined, limit: 1 });
  const [{ id, digest, method, passkey } = expect.fail("nothing is listed")] = approvals;
  expect(passkey).toEqual({ ...evidence, nonce: bytes(32) });

  const event = { type: "approval_given", userId, approval: { id, digest, method }, ...FROM } as const;
  await transaction(deps.sql, (tx) =>
    recordApproval(tx, deps, { ...event, ...(passkey && { evidence: passkey }) }, context()),
  );
  const base64 = (count: number) => bytes(count).toString("base64");
  const written =
    `{"authenticatorData":"${base64(37)}","clientData":"${base64(90)}","credentialId":"${base64(16)}",` +
    `"nonce":"${base64(32)}","passkeyId":"${SESSION}","publicKey":"${base64(77)}","rpId":"pay.example.com",` +
    `"signature":"${base64(70)}"}`;
  expect((await recorded()).at(-1)?.reason).toBe(
    `approval ${id} passkey ${digest.toString("hex")} ${sha256(written).toString("hex")}`,
  );
});

const owner = () => ({ userId, sessionId: SESSION, acr: 3, authTime: deps.now(), ...FROM }) as const;
async function withPasskey() {
  const device = new TestAuthenticator();
  const attestation = device.create(await beginPasskeyRegistration(deps, owner()));
  const { passkey } = await registerPasskey(deps, { owner: owner(), name: "Phone", attestation }, context());
  await emptyTables(database.ownerSql, "security_events");
  return { device, passkeyId: passkey.id };
}
async function askWithPasskey(change: Partial<Parameters<typeof askApproval>[1]> = {}) {
  const { token, passkey } = await ask(change);
  if (passkey === undefined) throw new Error("no options");
  return { token, passkey };
}
const sign = (token: string, passkey: ReturnType<TestAuthenticator["get"]>, sessionId = SESSION) =>
  verifyApproval(deps, { userId, sessionId, token, code: "", passkey, ...FROM }, context());

test("a passkey signs the transaction, and what it signed is kept, though the passkey goes", async () => {
  const { device, passkeyId } = await withPasskey();
  const { token, methods, passkey } = await ask();
  expect(methods).toEqual(["passkey", "totp", "recovery_code"]);
  if (passkey === undefined) throw new Error("no options");
  const [row] = await database.ownerSql`select nonce, digest from approvals`;
  const signed = createHash("sha256").update(row?.nonce).update(row?.digest).digest();
  expect(passkey.challenge).toBe(signed.toString("base64url"));
  const assertion = device.get(passkey);
  const { approvalId } = await sign(token, assertion);
  // It reaches the higher level, too.
  const passkeyUse = { approvalId, method: "passkey", isRepeated: false };
  expect(await consume(token, { acr: 3 })).toEqual(passkeyUse);
  const digest = sha256(TRANSACTION).toString("hex");
  expect((await recorded()).map(({ reason }) => reason)).toEqual([
    `approval ${approvalId} - ${digest}`,
    expect.stringMatching(`^approval ${approvalId} passkey ${digest} [0-9a-f]{64}$`),
    `approval ${approvalId} passkey ${digest}`,
  ]);
  await deletePasskey(deps, { owner: owner(), passkeyId }, context());
  const [kept] = await database.ownerSql`select * from approvals`;
  expect(kept).toMatchObject({
    method: "passkey",
    passkey_id: passkeyId,
    credential_id: device.credentialId,
    authenticator_data: Buffer.from(assertion.authenticatorData, "base64url"),
    client_data: Buffer.from(assertion.clientDataJson, "base64url"),
    signature: Buffer.from(assertion.signature, "base64url"),
    rp_id: "gatehouse.example",
  });
  expect(kept?.public_key.length).toBeGreaterThan(32);
});

test("a passkey signs by the id too, from options that are shown as long as its challenge is open", async () => {
  const { device } = await withPasskey();
  const { approvalId, passkey: asked } = await ask();
  const shown = await look(approvalId);
  expect([shown.methods, shown.passkey]).toEqual([["passkey", "totp", "recovery_code"], asked]);
  expect((await look(approvalId, { sessionId: OTHER_SESSION })).passkey).toBeUndefined();
  const signed = (by: typeof shown) => device.get(by.passkey ?? { challenge: "" });
  const attempt = { userId, sessionId: SESSION, token: "", approvalId, code: "", ...FROM };
  const wrong = { ...signed(shown), signature: "AA" };
  expect(await codeOf(verifyApproval(deps, { ...attempt, passkey: wrong }, context()))).toBe(
    "passkey_invalid",
  );
  expect(await look(approvalId)).toMatchObject({ methods: ["totp", "recovery_code"], passkey: undefined });
  const again = await ask();
  const passkey = signed(await look(again.approvalId));
  const given = { ...attempt, approvalId: again.approvalId, passkey };
  expect(await verifyApproval(deps, given, context())).toMatchObject({ method: "passkey" });
});

test("level 3 takes a passkey and no code", async () => {
  expect(await codeOf(ask({ acr: 3 }))).toBe("mfa_enrollment_required");
  const { device } = await withPasskey();
  const { token, methods, passkey } = await ask({ acr: 3 });
  expect(methods).toEqual(["passkey"]);
  expect(await codeOf(verify(token, recoveryCodes[0]))).toBe("mfa_code_invalid");
  expect(await sign(token, device.get(passkey ?? { challenge: "" }))).toMatchObject({ method: "passkey" });
});

test("an answer is good for its own transaction, purpose and session", async () => {
  const { device } = await withPasskey();
  const small = await askWithPasskey();
  const large = await askWithPasskey({ transaction: '{"fields":{"/amount":99999},"method":"POST"}' });
  expect(await codeOf(sign(large.token, device.get(small.passkey)))).toBe("passkey_invalid");
  expect(await codeOf(sign(large.token, device.get(large.passkey), OTHER_SESSION))).toBe("approval_mismatch");
  const { stepUpToken, passkey } = await beginStepUp(deps, {
    userId,
    sessionId: SESSION,
    current: 1,
    wanted: 3,
  });
  if (passkey === undefined) throw new Error("no options");
  expect(await codeOf(sign(large.token, device.get(passkey)))).toBe("passkey_invalid");
  const proof = { kind: "passkey", assertion: device.get(small.passkey) } as const;
  const stepUp = { userId, sessionId: SESSION, stepUpToken, proof, ...FROM };
  expect(await codeOf(completeStepUp(deps, stepUp, context()))).toBe("passkey_invalid");
  expect(await codeOf(sign(large.token, device.get(large.passkey)))).toBe("done");
  expect(await codeOf(consume(large.token))).toBe("approval_mismatch");
});

test("the signature is over what is stored: of a changed transaction nothing is given", async () => {
  const { device } = await withPasskey();
  const { token, passkey } = await askWithPasskey();
  await database.ownerSql`
    update approvals set transaction_text = '{"fields":{}}', digest = ${sha256('{"fields":{}}')}`;
  expect(await codeOf(sign(token, device.get(passkey)))).toBe("passkey_invalid");
});

const WRONG_ANSWERS: [string, Partial<Ceremony>][] = [
  ["no user verification", { flags: UP }],
  ["another RP id", { rpId: "evil.example" }],
  ["a frame of another site", { crossOrigin: true }],
];
test.each(WRONG_ANSWERS)("%s: refused and recorded; five attempts, with codes", async (_what, changes) => {
  const { device } = await withPasskey();
  const { token, passkey } = await askWithPasskey();
  expect(await codeOf(sign(token, device.get(passkey, changes)))).toBe("passkey_invalid");
  expect((await recorded()).at(-1)).toMatchObject({
    type: "approval_refused",
    error_code: "passkey_invalid",
  });
  for (let tries = 0; tries < 4; tries += 1)
    expect(await codeOf(verify(token, WRONG))).toBe("mfa_code_invalid");
  expect(await codeOf(verify(token, recoveryCodes[0]))).toBe("approval_expired");
});

test("the database keeps the evidence of a passkey whole, and none beside a code", async () => {
  await given();
  const { ownerSql: sql } = database;
  await expect(sql`update approvals set signature = '\\x00'`).rejects.toThrow(
    "approvals_passkey_evidence_is_whole",
  );
  await expect(sql`update approvals set method = 'passkey'`).rejects.toThrow(
    "approvals_passkey_evidence_is_whole",
  );
});
