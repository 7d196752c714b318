import { generateSync } from "otplib";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import type { AssuranceLevel, StepUpMethod } from "#token-client/assurance.ts";
import { changePassword } from "../accounts/change-password.ts";
import { register } from "../accounts/register.ts";
import { setUserAccess } from "../admin/set-user-access.ts";
import { beginMfaChallenge } from "../login/complete-login.ts";
import { completeMfaLogin } from "../login/complete-mfa-login.ts";
import { beginTotpEnrollment } from "../mfa/begin-totp-enrollment.ts";
import { confirmTotpEnrollment } from "../mfa/confirm-totp-enrollment.ts";
import { type Ceremony, TestAuthenticator, UP } from "../passkeys/authenticator.fixture.ts";
import { beginPasskeyRegistration, registerPasskey } from "../passkeys/register-passkey.ts";
import { endOwnSessions } from "../sessions/end-sessions.ts";
import {
  ANNA,
  asOperator,
  proveCredentials,
  sessionAt,
  soon,
  startWithAnna,
  type TestDeps,
} from "../testing/test-deps.ts";
import { getAccount } from "../users/get-account.ts";
import { beginStepUp, deleteOldStepUps } from "./begin-step-up.ts";
import { completeStepUp, type StepUpProof } from "./complete-step-up.ts";

const EMAIL = "anna.smith@example.com";
const PASSWORD = "Password123!";
const FROM = { clientIp: "192.0.2.1", userAgent: "curl/8" };
const SESSION = "019a0000-0000-7000-8000-00000000000a";
const OTHER_SESSION = "019a0000-0000-7000-8000-00000000000b";
const WRONG = "AAAA-AAAA-AAAA-AAAA";

let database: TestDatabase;
let deps: TestDeps;
let userId: string;
let nowMs: number;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
beforeEach(async () => {
  ({ deps, userId } = await startWithAnna(database, { ...ANNA, email: EMAIL }));
  nowMs = deps.now().getTime();
  deps = { ...deps, now: () => new Date(nowMs) };
  await proveCredentials(database.ownerSql, userId);
});
afterAll(() => database.drop());

const context = () => ({
  ...newCallContext({ budgetMs: 60_000 }),
  actor: { userId, role: "USER", sessionId: SESSION },
  caller: "gateway" as const,
});
const codeOf = (secret: string) => generateSync({ secret, epoch: Math.floor(nowMs / 1_000) });
async function enrolled() {
  const { secret } = await beginTotpEnrollment(
    deps,
    { ...sessionAt(deps), userId, password: PASSWORD, ...FROM },
    soon(),
  );
  const confirmation = { userId, sessionId: SESSION, code: codeOf(secret), ...FROM };
  const { recoveryCodes } = await confirmTotpEnrollment(
    deps,
    { ...sessionAt(deps), ...confirmation },
    context(),
  );
  nowMs += 30_000;
  return { secret, recoveryCodes };
}
const begin = (wanted?: AssuranceLevel, current: AssuranceLevel = 1) =>
  beginStepUp(deps, { userId, sessionId: SESSION, current, wanted });
const begun = async (wanted?: AssuranceLevel, current: AssuranceLevel = 1) =>
  (await begin(wanted, current)).stepUpToken;
type Proof = StepUpProof["proof"];
async function withPasskey(): Promise<TestAuthenticator> {
  const owner = { userId, sessionId: SESSION, acr: 2, authTime: deps.now(), ...FROM } as const;
  const device = new TestAuthenticator();
  const attestation = device.create(await beginPasskeyRegistration(deps, owner));
  await registerPasskey(deps, { owner, name: "Phone", attestation }, context());
  return device;
}
/** A step-up with what the device signs for it. */
async function signed(
  device: TestAuthenticator,
  changes: Partial<Ceremony> = {},
  wanted: AssuranceLevel = 3,
) {
  const { stepUpToken, passkey } = await begin(wanted);
  if (passkey === undefined) throw new Error("no options");
  const proof: Proof = { kind: "passkey", assertion: device.get(passkey, changes) };
  return { stepUpToken, proof };
}
const complete = (stepUpToken: string, proof: Proof, sessionId = SESSION) =>
  completeStepUp(deps, { userId, sessionId, stepUpToken, proof, ...FROM }, context());
const code = (text: string): Proof => ({ kind: "code", text });
const password = (text = PASSWORD): Proof => ({ kind: "password", text });
const outcomeOf = (work: Promise<unknown>) =>
  work.then(
    () => "done",
    (error: unknown) => (error instanceof DomainError ? error.code : String(error)),
  );
const recorded = () =>
  database.ownerSql`
    select type, reason, error_code as "errorCode", actor_id as "actorId", session_id as "sessionId"
    from security_events where user_id = ${userId} and type like 'step%' order by id`;

const NONE = "mfa_enrollment_required";
const AT_PROVIDER = "reauthentication_required";
const CODES: StepUpMethod[] = ["totp", "recovery_code"];
type Factors =
  | "password"
  | "password, totp"
  | "totp"
  | "password, totp, no recovery code"
  | "none"
  | "passkey"
  | "password, passkey"
  | "password, totp, passkey";
/** The factors of the user, the level of the token, the level wanted, and what the user may prove. */
const ROWS: [
  Factors,
  AssuranceLevel,
  AssuranceLevel | undefined,
  StepUpMethod[] | typeof NONE | typeof AT_PROVIDER,
][] = [
  ["none", 1, undefined, AT_PROVIDER],
  ["none", 1, 2, NONE],
  ["none", 1, 3, NONE],
  ["none", 2, undefined, NONE],
  ["none", 2, 2, NONE],
  ["none", 2, 3, NONE],
  ["none", 3, undefined, NONE],
  ["none", 3, 2, NONE],
  ["none", 3, 3, NONE],
  ["password", 1, undefined, ["password"]],
  ["password", 1, 2, NONE],
  ["password", 1, 3, NONE],
  ["password", 2, undefined, NONE],
  ["password", 2, 2, NONE],
  ["password", 2, 3, NONE],
  ["password", 3, undefined, NONE],
  ["password", 3, 2, NONE],
  ["password", 3, 3, NONE],
  ["totp", 1, undefined, CODES],
  ["totp", 1, 2, CODES],
  ["totp", 1, 3, NONE],
  ["totp", 2, undefined, CODES],
  ["totp", 2, 2, CODES],
  ["totp", 2, 3, NONE],
  ["totp", 3, undefined, NONE],
  ["totp", 3, 2, NONE],
  ["totp", 3, 3, NONE],
  ["password, totp", 1, undefined, [...CODES, "password"]],
  ["password, totp", 1, 2, CODES],
  ["password, totp", 1, 3, NONE],
  ["password, totp", 2, undefined, CODES],
  ["password, totp", 2, 2, CODES],
  ["password, totp", 2, 3, NONE],
  ["password, totp", 3, undefined, NONE],
  ["password, totp", 3, 2, NONE],
  ["password, totp", 3, 3, NONE],
  ["password, totp, no recovery code", 1, undefined, ["totp", "password"]],
  ["password, totp, no recovery code", 1, 2, ["totp"]],
  ["passkey", 1, undefined, ["passkey", "recovery_code"]],
  ["passkey", 1, 2, ["passkey", "recovery_code"]],
  ["passkey", 1, 3, ["passkey"]],
  ["passkey", 2, undefined, ["passkey", "recovery_code"]],
  ["passkey", 2, 2, ["passkey", "recovery_code"]],
  ["passkey", 2, 3, ["passkey"]],
  ["passkey", 3, undefined, ["passkey"]],
  ["passkey", 3, 2, ["passkey"]],
  ["passkey", 3, 3, ["passkey"]],
  ["password, passkey", 1, undefined, ["passkey", "recovery_code", "password"]],
  ["password, passkey", 1, 2, ["passkey", "recovery_code"]],
  ["password, passkey", 1, 3, ["passkey"]],
  ["password, passkey", 2, undefined, ["passkey", "recovery_code"]],
  ["password, passkey", 2, 2, ["passkey", "recovery_code"]],
  ["password, passkey", 2, 3, ["passkey"]],
  ["password, passkey", 3, undefined, ["passkey"]],
  ["password, passkey", 3, 2, ["passkey"]],
  ["password, passkey", 3, 3, ["passkey"]],
  ["password, totp, passkey", 1, undefined, ["passkey", ...CODES, "password"]],
  ["password, totp, passkey", 1, 2, ["passkey", ...CODES]],
  ["password, totp, passkey", 1, 3, ["passkey"]],
  ["password, totp, passkey", 2, undefined, ["passkey", ...CODES]],
  ["password, totp, passkey", 2, 2, ["passkey", ...CODES]],
  ["password, totp, passkey", 2, 3, ["passkey"]],
  ["password, totp, passkey", 3, undefined, ["passkey"]],
  ["password, totp, passkey", 3, 2, ["passkey"]],
  ["password, totp, passkey", 3, 3, ["passkey"]],
];

test.each(ROWS)("a user with %s, at level %i, to %s: %j", async (factors, current, wanted, expected) => {
  if (factors.includes("totp")) await enrolled();
  if (factors.includes("passkey")) await withPasskey();
  if (factors.includes("no recovery code")) await database.ownerSql`delete from recovery_codes`;
  if (!factors.includes("password")) await database.ownerSql`update users set password_hash = null`;
  const answer = await begin(wanted, current).then(
    ({ methods, passkey }) => ({ methods, hasOptions: passkey !== undefined }),
    (error: DomainError) => error.code,
  );
  const methods = expected;
  const isRefused = typeof expected === "string";
  expect(answer).toEqual(isRefused ? expected : { methods, hasOptions: factors.includes("passkey") });
  const rows = await database.ownerSql`select acr from step_ups`;
  expect(rows).toEqual(isRefused ? [] : [{ acr: Math.max(wanted ?? 1, current) }]);
});

test("a TOTP code raises the session to level 2, once, and the audit log records it without the code", async () => {
  const { secret } = await enrolled();
  const stepUp = await begin(2);
  expect(stepUp).toMatchObject({ stepUpToken: expect.stringMatching(/^[\w-]{43}$/), expiresInS: 300 });
  const rows = JSON.stringify(await database.ownerSql`select * from step_ups`);
  expect(rows).not.toContain(stepUp.stepUpToken);

  const typed = codeOf(secret);
  const raised = { accessToken: "raised", expiresInS: 900, acr: 2 };
  expect(await complete(stepUp.stepUpToken, code(typed))).toEqual(raised);
  const proof = { userId, sessionId: SESSION, acr: 2, amr: ["otp", "mfa"] };
  expect(deps.tokenService.raiseSession.mock.calls.map(([asked]) => asked)).toEqual([proof]);
  expect(await recorded()).toEqual([
    { type: "stepped_up", reason: "totp", errorCode: null, actorId: userId, sessionId: SESSION },
  ]);
  nowMs += 30_000;
  expect(await outcomeOf(complete(stepUp.stepUpToken, code(codeOf(secret))))).toBe("step_up_token_invalid");
  expect(await outcomeOf(complete(await begun(2), code(typed)))).toBe("mfa_code_invalid");
  expect(deps.tokenService.raiseSession).toHaveBeenCalledTimes(1);
  expect(JSON.stringify(await database.ownerSql`select * from security_events`)).not.toContain(typed);
});

test("a recovery code does too, and its owner gets the mail of its use", async () => {
  const { recoveryCodes } = await enrolled();
  await complete(await begun(2), code(recoveryCodes[0] ?? ""));
  expect(deps.tokenService.raiseSession.mock.lastCall?.[0]).toMatchObject({ acr: 2, amr: ["mfa"] });
  expect(await recorded()).toMatchObject([{ type: "stepped_up", reason: "recovery_code" }]);
  const mails =
    await database.ownerSql`select template from mail_outbox where template = 'recovery-code-used'`;
  expect(mails).toHaveLength(1);
});

test("a password renews level 1 and never proves level 2", async () => {
  await enrolled();
  await complete(await begun(), password());
  expect(deps.tokenService.raiseSession.mock.lastCall?.[0]).toMatchObject({ acr: 1, amr: ["pwd"] });
  expect(await recorded()).toMatchObject([{ type: "stepped_up", reason: "password" }]);
  const verified = deps.argon2.verify.mock.calls.length;
  for (const token of [await begun(2), await begun(undefined, 2)])
    expect(await outcomeOf(complete(token, password()))).toBe("step_up_token_invalid");
  expect(deps.argon2.verify.mock.calls.length).toBe(verified);
  expect(deps.tokenService.raiseSession).toHaveBeenCalledTimes(1);
});

test("a passkey raises the session to level 3, once, and the audit log records it", async () => {
  const device = await withPasskey();
  const { stepUpToken, proof } = await signed(device);
  expect(await complete(stepUpToken, proof)).toMatchObject({ acr: 3 });
  const raised = { userId, sessionId: SESSION, acr: 3, amr: ["hwk", "user", "mfa"] };
  expect(deps.tokenService.raiseSession.mock.calls.map(([asked]) => asked)).toEqual([raised]);
  expect(await recorded()).toMatchObject([
    { type: "stepped_up", reason: "passkey", actorId: userId, sessionId: SESSION },
  ]);
  expect(await outcomeOf(complete(stepUpToken, proof))).toBe("step_up_token_invalid");
  expect(deps.tokenService.raiseSession).toHaveBeenCalledTimes(1);
});

test("a passkey proves each level", async () => {
  const device = await withPasskey();
  for (const wanted of [1, 2, 3] as const) {
    const { stepUpToken, proof } = await signed(device, {}, wanted);
    expect(await complete(stepUpToken, proof)).toMatchObject({ acr: 3 });
  }
});

test("a refused passkey counts as an attempt, uses its challenge up and is recorded", async () => {
  const device = await withPasskey();
  const { stepUpToken, passkey } = await begin(3);
  if (passkey === undefined) throw new Error("no options");
  const sign = (changes: Partial<Ceremony> = {}): Proof => ({
    kind: "passkey",
    assertion: device.get(passkey, changes),
  });
  expect(await outcomeOf(complete(stepUpToken, sign({ flags: UP })))).toBe("passkey_invalid");
  for (let tries = 0; tries < 4; tries += 1)
    expect(await outcomeOf(complete(stepUpToken, sign()))).toBe("passkey_invalid");
  expect(await outcomeOf(complete(stepUpToken, sign()))).toBe("step_up_token_invalid");
  const refused = { type: "step_up_failed", reason: "wrong_passkey", errorCode: "passkey_invalid" };
  expect(await recorded()).toMatchObject(Array.from({ length: 5 }, () => refused));
  expect(deps.tokenService.raiseSession).not.toHaveBeenCalled();
});

test("what a passkey signed for one step-up is worth nothing for another, or in another session", async () => {
  const device = await withPasskey();
  const [first, second] = [await signed(device), await signed(device)];
  expect(await outcomeOf(complete(first.stepUpToken, second.proof))).toBe("passkey_invalid");
  expect(await outcomeOf(complete(first.stepUpToken, first.proof, OTHER_SESSION))).toBe(
    "step_up_token_invalid",
  );
  expect(await outcomeOf(complete(first.stepUpToken, first.proof))).toBe("done");
});

test("fifty answers of a passkey at once: one raises the session", async () => {
  const { stepUpToken, proof } = await signed(await withPasskey());
  const outcomes = await Promise.all(
    Array.from({ length: 50 }, () => outcomeOf(complete(stepUpToken, proof))),
  );
  expect(outcomes.filter((outcome) => outcome === "done")).toHaveLength(1);
  expect(deps.tokenService.raiseSession).toHaveBeenCalledTimes(1);
});

test("a token has five attempts, by code or by password", async () => {
  const { secret } = await enrolled();
  const byCode = await begun(2);
  for (let tries = 0; tries < 5; tries += 1)
    expect(await outcomeOf(complete(byCode, code(WRONG)))).toBe("mfa_code_invalid");
  expect(await outcomeOf(complete(byCode, code(codeOf(secret))))).toBe("step_up_token_invalid");
  expect(await recorded()).toEqual(
    Array.from({ length: 5 }, () => ({
      type: "step_up_failed",
      reason: "wrong_mfa_code",
      errorCode: "mfa_code_invalid",
      actorId: userId,
      sessionId: SESSION,
    })),
  );
  const byPassword = await begun();
  const wrong = await Promise.all(
    Array.from({ length: 8 }, () => outcomeOf(complete(byPassword, password("wrong")))),
  );
  expect(wrong.filter((code) => code === "step_up_token_invalid")).toHaveLength(3);
  expect(await outcomeOf(complete(byPassword, password()))).toBe("step_up_token_invalid");
  expect(deps.tokenService.raiseSession).not.toHaveBeenCalled();
});

test("a password that could not be checked costs no attempt", async () => {
  const token = await begun();
  const busy = { ...deps, hashShare: { run: () => Promise.reject(new DomainError("busy")) } };
  for (let tries = 0; tries < 10; tries += 1)
    expect(
      await outcomeOf(
        completeStepUp(
          busy,
          { userId, sessionId: SESSION, stepUpToken: token, proof: password(), ...FROM },
          context(),
        ),
      ),
    ).toBe("busy");
  const broken = { ...deps, hashShare: { run: () => Promise.reject(new Error("connection lost")) } };
  for (let tries = 0; tries < 10; tries += 1)
    await expect(
      completeStepUp(
        broken,
        { userId, sessionId: SESSION, stepUpToken: token, proof: password(), ...FROM },
        context(),
      ),
    ).rejects.toThrow("lost");
  for (let tries = 0; tries < 4; tries += 1)
    expect(await outcomeOf(complete(token, password("wrong")))).toBe("invalid_credentials");
  expect(await outcomeOf(complete(token, password()))).toBe("done");
});

test("wrong codes of step-ups and of logins count together", async () => {
  const { secret } = await enrolled();
  for (let token = 0; token < 2; token += 1) {
    const stepUpToken = await begun(2);
    for (let tries = 0; tries < 5; tries += 1) await outcomeOf(complete(stepUpToken, code(WRONG)));
  }
  expect(await outcomeOf(complete(await begun(2), code(codeOf(secret))))).toBe("too_many_requests");
  const failures = await database.ownerSql`select 1 from mfa_failures where user_id = ${userId}`;
  expect(failures).toHaveLength(10);
  const mails = await database.ownerSql`select template from mail_outbox where template = 'mfa-guessed'`;
  expect(mails).toHaveLength(1);
});

test("a code that a step-up used is used at a login, too", async () => {
  const { secret } = await enrolled();
  const typed = codeOf(secret);
  await complete(await begun(2), code(typed));
  const first = { user: await getAccount(deps, userId), firstFactor: "pwd" } as const;
  const { tempToken } = await beginMfaChallenge(deps, first, FROM);
  const attempt = { tempToken, code: typed, deviceToken: "", ...FROM };
  expect(await outcomeOf(completeMfaLogin(deps, attempt, context()))).toBe("mfa_code_invalid");
});

test("fifty proofs at once: one raises the session", async () => {
  const { secret } = await enrolled();
  const [stepUpToken, typed] = [await begun(2), codeOf(secret)];
  const outcomes = await Promise.all(
    Array.from({ length: 50 }, () => outcomeOf(complete(stepUpToken, code(typed)))),
  );
  expect(outcomes.filter((outcome) => outcome === "done")).toHaveLength(1);
  expect(deps.tokenService.raiseSession).toHaveBeenCalledTimes(1);
});

test("a token is of its session, its user and its kind", async () => {
  const { secret } = await enrolled();
  const stepUpToken = await begun(2);
  const typed = code(codeOf(secret));
  expect(await outcomeOf(complete(stepUpToken, typed, OTHER_SESSION))).toBe("step_up_token_invalid");
  const registration = { email: "eve@example.com", password: PASSWORD, firstName: "Eve", lastName: "Smith" };
  const eve = await register(deps, registration, soon());
  const asEve = { userId: eve.id, sessionId: SESSION, stepUpToken, proof: password(), ...FROM };
  expect(await outcomeOf(completeStepUp(deps, asEve, context()))).toBe("step_up_token_invalid");
  const first = { user: await getAccount(deps, userId), firstFactor: "pwd" } as const;
  const { tempToken } = await beginMfaChallenge(deps, first, FROM);
  for (const token of [tempToken, "", "x", "A".repeat(43), "\0".repeat(43)])
    expect(await outcomeOf(complete(token, typed))).toBe("step_up_token_invalid");
  expect(await outcomeOf(complete(stepUpToken, typed))).toBe("done");
});

test("it ends after five minutes, and is then forgotten", async () => {
  const { secret } = await enrolled();
  const early = await begun(2);
  nowMs += 299_999;
  expect(await outcomeOf(complete(early, code(codeOf(secret))))).toBe("done");
  const late = await begun(2);
  nowMs += 300_000;
  expect(await outcomeOf(complete(late, code(codeOf(secret))))).toBe("step_up_token_invalid");
  const open = await begun(2);
  nowMs += 1;
  await deleteOldStepUps(deps);
  expect(await database.ownerSql`select 1 from step_ups`).toHaveLength(1);
  expect(await outcomeOf(complete(open, code(codeOf(secret))))).toBe("done");
});

const ENDS: [string, () => Promise<unknown>][] = [
  [
    "a change of the password",
    () => {
      const change = {
        userId,
        sessionId: SESSION,
        currentPassword: PASSWORD,
        newPassword: "another good one",
      };
      return changePassword(deps, { ...sessionAt(deps, 2), ...change, clientIp: "" }, context());
    },
  ],
  ["a disable", () => setUserAccess(deps, { userId, status: "disabled" }, asOperator())],
  [
    "the end of the other sessions",
    () => endOwnSessions(deps, { userId, exceptSessionId: SESSION }, context()),
  ],
];

test.each(ENDS)("it dies by %s", async (_what, end) => {
  const { secret } = await enrolled();
  const byPasskey = await signed(await withPasskey());
  const [byCode, byPassword] = [await begun(2), await begun()];
  await end();
  expect(await outcomeOf(complete(byPasskey.stepUpToken, byPasskey.proof))).toBe("step_up_token_invalid");
  expect(await outcomeOf(complete(byCode, code(codeOf(secret))))).toBe("step_up_token_invalid");
  expect(await outcomeOf(complete(byPassword, password()))).toBe("step_up_token_invalid");
  expect(deps.tokenService.raiseSession).not.toHaveBeenCalled();
});

test("a session that ended meanwhile is not raised, and an outage is no refusal", async () => {
  deps.tokenService.raiseSession.mockRejectedValueOnce(new DomainError("not_found"));
  expect(await outcomeOf(complete(await begun(), password()))).toBe("token_invalid");
  deps.tokenService.raiseSession.mockRejectedValueOnce(new DomainError("service_unavailable"));
  expect(await outcomeOf(complete(await begun(), password()))).toBe("service_unavailable");
});

test("the token of one user is of no use to another one, who has proven themselves", async () => {
  const token = await begun();
  const ben = { email: "ben@example.com", password: PASSWORD, firstName: "Ben", lastName: "Smith" };
  const { id } = await register(deps, ben, soon());
  const proof = { stepUpToken: token, proof: password(), ...FROM };
  const foreign = completeStepUp(deps, { userId: id, sessionId: SESSION, ...proof }, context());
  expect(await outcomeOf(foreign)).toBe("step_up_token_invalid");
  expect(deps.tokenService.raiseSession).not.toHaveBeenCalled();
  expect(await outcomeOf(complete(token, password()))).toBe("done");
});

test("no code proves level 3", async () => {
  const { secret, recoveryCodes } = await enrolled();
  const token = await begun(2);
  await database.ownerSql`update step_ups set acr = 3`;
  for (const text of [codeOf(secret), recoveryCodes[0] ?? ""])
    expect(await outcomeOf(complete(token, code(text)))).toBe("step_up_token_invalid");
  expect(deps.tokenService.raiseSession).not.toHaveBeenCalled();
});

test("a disabled account proves nothing, whatever ended its sessions", async () => {
  const { secret } = await enrolled();
  const [byCode, byPassword] = [await begun(2), await begun()];
  await database.ownerSql`update users set status = 'disabled' where id = ${userId}`;
  expect(await outcomeOf(complete(byCode, code(codeOf(secret))))).toBe("step_up_token_invalid");
  expect(await outcomeOf(complete(byPassword, password()))).toBe("step_up_token_invalid");
  expect(deps.tokenService.raiseSession).not.toHaveBeenCalled();
});

test("a password that is replaced while it is checked raises nothing", async () => {
  const token = await begun();
  const { verify } = deps.passwords;
  deps.passwords.verify = async (...args) => {
    const verdict = await verify(...args);
    await database.ownerSql`update users set password_hash = password_hash || 'x' where id = ${userId}`;
    return verdict;
  };
  expect(await outcomeOf(complete(token, password()))).toBe("invalid_credentials");
  expect(deps.tokenService.raiseSession).not.toHaveBeenCalled();
});

test("guesses of strangers with the password do not keep the owner's session from stepping up", async () => {
  const { secret } = await enrolled();
  await database.ownerSql`
    insert into mfa_failures (id, user_id, failed_at, on_known_device)
    select gen_random_uuid(), ${userId}, ${deps.now()}, false from generate_series(1, 20)`;
  expect(await outcomeOf(complete(await begun(2), code(codeOf(secret))))).toBe("done");
});
