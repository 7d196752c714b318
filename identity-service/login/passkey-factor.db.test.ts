import { generateSync } from "otplib";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { undoAccessChange } from "../accounts/undo-change.ts";
import { resetUserMfa } from "../admin/reset-user-mfa.ts";
import { beginTotpEnrollment } from "../mfa/begin-totp-enrollment.ts";
import { confirmTotpEnrollment } from "../mfa/confirm-totp-enrollment.ts";
import { disableTotp } from "../mfa/disable-totp.ts";
import { type Ceremony, TestAuthenticator, UP } from "../passkeys/authenticator.fixture.ts";
import { deletePasskey } from "../passkeys/delete-passkey.ts";
import { beginPasskeyRegistration, registerPasskey } from "../passkeys/register-passkey.ts";
import { beginStepUp } from "../step-up/begin-step-up.ts";
import {
  ANNA,
  asOperator,
  proveCredentials,
  sessionAt,
  soon,
  startWithAnna,
  type TestDeps,
} from "../testing/test-deps.ts";
import { MemoryThrottle } from "../throttle/memory-throttle.ts";
import { throttleLimits } from "../throttle/throttle.ts";
import type { Role } from "../users/account.ts";
import { getAccount } from "../users/get-account.ts";
import { completeLogin } from "./complete-login.ts";
import { completeMfaLogin } from "./complete-mfa-login.ts";
import {
  beginPasskeyRegistrationAtLogin,
  completePasskeyRegistrationAtLogin,
} from "./enroll-passkey-at-login.ts";
import { logIn as logInWith } from "./log-in.ts";

const FROM = { clientIp: "192.0.2.1", userAgent: "curl/8" };
const NEW_DEVICE = { ...FROM, deviceToken: "" };
const SESSION = "019a0000-0000-7000-8000-00000000000a";

let database: TestDatabase;
let deps: TestDeps;
let userId: string;
let nowMs: number;

beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
beforeEach(async () => {
  const started = await startWithAnna(database);
  nowMs = Date.parse("2031-01-02T03:04:05.678Z");
  deps = { ...started.deps, now: () => new Date(nowMs) };
  userId = started.userId;
  await proveCredentials(database.ownerSql, userId);
});
afterAll(() => database.drop());

const context = () => newCallContext({ budgetMs: 60_000 });
const failure = (work: Promise<unknown>) =>
  work.then(
    () => "done",
    (error: unknown) => (error instanceof DomainError ? error.code : String(error)),
  );
const codeOf = (secret: string) => generateSync({ secret, epoch: Math.floor(nowMs / 1_000) });
const owner = () => ({ userId, sessionId: SESSION, acr: 3, authTime: deps.now(), ...FROM }) as const;
async function withPasskey(device = new TestAuthenticator()) {
  const attestation = device.create(await beginPasskeyRegistration(deps, owner()));
  const registration = { owner: owner(), name: "Phone", attestation };
  return { device, ...(await registerPasskey(deps, registration, context())) };
}
async function withTotp() {
  const asked = { userId, password: ANNA.password, ...FROM };
  const { secret } = await beginTotpEnrollment(deps, { ...sessionAt(deps, 2), ...asked }, soon());
  const confirmation = { userId, sessionId: SESSION, code: codeOf(secret), ...FROM };
  const { recoveryCodes } = await confirmTotpEnrollment(
    deps,
    { ...sessionAt(deps, 2), ...confirmation },
    context(),
  );
  nowMs += 30_000;
  return { secret, recoveryCodes };
}
const logIn = () => logInWith(deps, { email: ANNA.email, password: ANNA.password, ...NEW_DEVICE }, context());
async function asked() {
  const result = await logIn();
  if (result.kind !== "mfaChallenge") throw new Error(`not asked: ${result.kind}`);
  return result;
}
async function askedForPasskey() {
  const { tempToken, passkey } = await asked();
  if (passkey === undefined) throw new Error("no options");
  return { tempToken, passkey };
}
const answer = (tempToken: string, passkey: ReturnType<TestAuthenticator["get"]>) =>
  completeMfaLogin(deps, { tempToken, code: "", passkey, ...NEW_DEVICE }, context());
const byCode = (tempToken: string, code: string) =>
  completeMfaLogin(deps, { tempToken, code, ...NEW_DEVICE }, context());
const codesLeft = async () => (await database.ownerSql`select from recovery_codes`).length;
const remove = (passkeyId: string) => deletePasskey(deps, { owner: owner(), passkeyId }, context());
async function turnTotpOff(secret: string) {
  const { password } = ANNA;
  const request = { userId, sessionId: SESSION, password, code: codeOf(secret), ...FROM };
  await disableTotp(deps, { ...sessionAt(deps, 2), ...request }, context());
  nowMs += 30_000;
}
const failures = () =>
  database.ownerSql`
    select reason, error_code as "errorCode", actor_id as "actorId" from security_events
    where type = 'login_failed' order by id`;
async function requireMfaOf(role: Role) {
  deps.mfaRequiredRoles = new Set<Role>([role]);
  await database.ownerSql`update users set role = ${role} where id = ${userId}`;
}

describe("the second factor of a login", () => {
  test("a user with a password and a passkey is asked for it, and reaches level 3", async () => {
    const { device } = await withPasskey();
    const challenge = await asked();
    expect(challenge).toMatchObject({
      methods: ["passkey", "recovery_code"],
      passkey: { allowCredentials: [{ id: device.id }], userVerification: "required" },
    });
    expect(deps.tokenService.issueSession).not.toHaveBeenCalled();
    const assertion = device.get(challenge.passkey ?? { challenge: "" });
    expect(await answer(challenge.tempToken, assertion)).toMatchObject({ kind: "completed" });
    expect(deps.tokenService.issueSession.mock.lastCall?.[0]).toMatchObject({
      userId,
      acr: 3,
      amr: ["pwd", "hwk", "user", "mfa"],
    });
    expect(await failure(answer(challenge.tempToken, assertion))).toBe("mfa_token_invalid");
  });

  test("with TOTP too, either will do", async () => {
    const { device } = await withPasskey();
    const { secret } = await withTotp();
    expect((await asked()).methods).toEqual(["passkey", "totp", "recovery_code"]);
    const { tempToken, passkey } = await askedForPasskey();
    expect(await answer(tempToken, device.get(passkey))).toMatchObject({ kind: "completed" });
    expect(await byCode((await asked()).tempToken, codeOf(secret))).toMatchObject({ kind: "completed" });
    expect(deps.tokenService.issueSession.mock.lastCall?.[0].acr).toBe(2);
  });

  test("with TOTP alone, there is no passkey to prove", async () => {
    await withTotp();
    const challenge = await asked();
    expect(challenge.methods).toEqual(["totp", "recovery_code"]);
    expect(challenge.passkey).toBeUndefined();
  });

  test("a provider's login is asked too", async () => {
    const { device } = await withPasskey();
    const proven = { user: await getAccount(deps, userId), amr: ["fed"], authTime: deps.now() };
    const result = await completeLogin(deps, { ...proven, ifEnded: "oauth_failed" }, NEW_DEVICE, context());
    if (result.kind !== "mfaChallenge" || result.passkey === undefined) throw new Error("not asked");
    await answer(result.tempToken, device.get(result.passkey));
    expect(deps.tokenService.issueSession.mock.lastCall?.[0].amr).toEqual(["fed", "hwk", "user", "mfa"]);
  });

  const WRONG: [string, Partial<Ceremony>][] = [
    ["no user verification", { flags: UP }],
    ["another origin", { origin: "https://gatehouse.example.evil" }],
    ["another challenge", { challenge: "A".repeat(43) }],
  ];
  test.each(WRONG)("%s: refused, recorded, and the challenge is used up", async (_what, changes) => {
    const { device } = await withPasskey();
    await emptyTables(database.ownerSql, "security_events");
    const { tempToken, passkey } = await askedForPasskey();
    expect(await failure(answer(tempToken, device.get(passkey, changes)))).toBe("passkey_invalid");
    const isUsedUp = !("challenge" in changes);
    expect(await failure(answer(tempToken, device.get(passkey)))).toBe(isUsedUp ? "passkey_invalid" : "done");
    const recorded = { reason: "wrong_passkey", errorCode: "passkey_invalid", actorId: null };
    expect(await failures()).toEqual(isUsedUp ? [recorded, recorded] : [recorded]);
  });

  test("five attempts, by passkey and by code together", async () => {
    const { device, recoveryCodes } = await withPasskey();
    const { tempToken, passkey } = await askedForPasskey();
    for (let tries = 0; tries < 3; tries += 1)
      expect(await failure(answer(tempToken, device.get({ challenge: "A".repeat(43) })))).toBe(
        "passkey_invalid",
      );
    for (let tries = 0; tries < 2; tries += 1)
      expect(await failure(byCode(tempToken, "AAAA-AAAA-AAAA-AAAA"))).toBe("mfa_code_invalid");
    expect(await failure(answer(tempToken, device.get(passkey)))).toBe("mfa_token_invalid");
    expect(await failure(byCode(tempToken, recoveryCodes[0] ?? ""))).toBe("mfa_token_invalid");
  });

  test("what was signed for another login or for a step-up is worth nothing", async () => {
    const { device } = await withPasskey();
    const [first, second] = [await askedForPasskey(), await askedForPasskey()];
    expect(await failure(answer(first.tempToken, device.get(second.passkey)))).toBe("passkey_invalid");
    const request = { userId, sessionId: SESSION, current: 1, wanted: 3 } as const;
    const { passkey } = await beginStepUp(deps, request);
    if (passkey === undefined) throw new Error("no options");
    expect(await failure(answer(first.tempToken, device.get(passkey)))).toBe("passkey_invalid");
    expect(await failure(answer(first.tempToken, device.get(first.passkey)))).toBe("done");
  });

  test("a thief of the password pushes the owner's challenge out by no number of logins, and has a budget", async () => {
    const { device } = await withPasskey();
    const { tempToken, passkey } = await askedForPasskey();
    const limits = throttleLimits({ network: 1_000, everything: 1_000 });
    deps.throttle = new MemoryThrottle({ limits, now: () => nowMs });
    const thief = { email: ANNA.email, password: ANNA.password, ...NEW_DEVICE, clientIp: "198.51.100.9" };
    const outcomes: string[] = [];
    for (let count = 0; count < 61; count += 1) {
      nowMs += 1;
      outcomes.push(await failure(logInWith(deps, thief, context())));
    }
    expect(outcomes).toEqual([...Array.from({ length: 60 }, () => "done"), "too_many_requests"]);
    expect(await failure(answer(tempToken, device.get(passkey)))).toBe("done");
  });

  test("twenty answers at once: one logs in", async () => {
    const { device } = await withPasskey();
    const { tempToken, passkey } = await askedForPasskey();
    const assertion = device.get(passkey);
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, () => failure(answer(tempToken, assertion))),
    );
    expect(outcomes.filter((outcome) => outcome === "done")).toHaveLength(1);
    expect(deps.tokenService.issueSession).toHaveBeenCalledTimes(1);
  });
});

describe("recovery codes", () => {
  test("come with the first passkey only, and one of them logs in", async () => {
    const { recoveryCodes } = await withPasskey();
    expect(recoveryCodes).toHaveLength(10);
    expect((await withPasskey()).recoveryCodes).toEqual([]);
    expect(await codesLeft()).toBe(10);
    const { tempToken } = await asked();
    expect(await byCode(tempToken, recoveryCodes[0] ?? "")).toMatchObject({ kind: "completed" });
    expect(await codesLeft()).toBe(9);
  });

  test("do not come with a passkey beside TOTP", async () => {
    await withTotp();
    expect((await withPasskey()).recoveryCodes).toEqual([]);
    expect(await codesLeft()).toBe(10);
  });

  test("go with the last second factor, whichever it is", async () => {
    const first = await withPasskey();
    const second = await withPasskey();
    await remove(first.passkey.id);
    expect(await codesLeft()).toBe(10);
    const { secret } = await withTotp();
    await remove(second.passkey.id);
    expect(await codesLeft()).toBe(10);
    await turnTotpOff(secret);
    expect(await codesLeft()).toBe(0);
    expect(await logIn()).toMatchObject({ kind: "completed" });

    const third = await withPasskey();
    expect(third.recoveryCodes).toHaveLength(10);
    await turnTotpOff((await withTotp()).secret);
    expect(await codesLeft()).toBe(10);
    await remove(third.passkey.id);
    expect(await codesLeft()).toBe(0);
  });

  test("are not spent on turning off a TOTP that is not on", async () => {
    const { recoveryCodes } = await withPasskey();
    const [code = ""] = recoveryCodes;
    const request = { userId, sessionId: SESSION, password: ANNA.password, code, ...FROM };
    expect(await failure(disableTotp(deps, { ...sessionAt(deps, 2), ...request }, context()))).toBe(
      "mfa_code_invalid",
    );
    expect(await codesLeft()).toBe(10);
  });

  test("of a passkey stay when an attacker sets up TOTP and when the owner undoes it: a new factor gives none", async () => {
    await withPasskey();
    nowMs += 30 * 24 * 3_600_000;
    // As a clock does, so that what came first is older.
    deps.now = () => {
      nowMs += 1;
      return new Date(nowMs);
    };
    const { recoveryCodes } = await withTotp();
    const [mail] = await database.ownerSql<{ data: { link: string } }[]>`
      select data from mail_outbox where template = 'mfa-enabled'`;
    const token = deps.linkTokens.tokenOf(mail?.data.link.split(":")[1] ?? "");
    await undoAccessChange(deps, token, context());
    expect(await getAccount(deps, userId)).toMatchObject({ hasTotp: false, passkeyCount: 1 });
    expect(await codesLeft()).toBe(10);
    expect(recoveryCodes).toEqual([]);
  });
});

describe("a role that requires a second factor", () => {
  test("keeps its last one, whichever it is", async () => {
    await requireMfaOf("AUDITOR");
    const { passkey } = await withPasskey();
    expect(await failure(remove(passkey.id))).toBe("mfa_required");
    const { secret } = await withTotp();
    expect(await failure(remove(passkey.id))).toBe("done");
    expect(await failure(turnTotpOff(secret))).toBe("mfa_required");
    await withPasskey();
    expect(await failure(turnTotpOff(secret))).toBe("done");
  });

  async function enrollment() {
    await requireMfaOf("AUDITOR");
    const login = await logIn();
    if (login.kind !== "mfaEnrollment") throw new Error("not asked to enroll");
    return login;
  }
  const complete = (tempToken: string, attestation: ReturnType<TestAuthenticator["create"]>) => {
    const attempt = { tempToken, name: "Phone", attestation, ...NEW_DEVICE };
    return completePasskeyRegistrationAtLogin(deps, attempt, context());
  };

  test("enrolls a passkey at login, which completes it at level 2, once", async () => {
    const { tempToken, methods } = await enrollment();
    expect(methods).toEqual(["totp", "passkey"]);
    const device = new TestAuthenticator();
    const { options, userId: whose } = await beginPasskeyRegistrationAtLogin(deps, tempToken);
    expect(whose).toBe(userId);
    const attestation = device.create(options);
    const login = await complete(tempToken, attestation);
    expect(login).toMatchObject({ kind: "completed", user: { mfaEnabled: true, passkeyCount: 1 } });
    expect(login.added.recoveryCodes).toHaveLength(10);
    // Beside the epoch, which the end of the sessions raises.
    const challenges = await database.ownerSql`select consumed_at from mfa_enrollment_challenges`;
    expect(challenges).toEqual([{ consumed_at: deps.now() }]);
    const session = deps.tokenService.issueSession.mock.lastCall?.[0];
    expect(session).toMatchObject({ amr: ["pwd", "user", "mfa"], acr: 2 });
    expect(await failure(complete(tempToken, attestation))).toBe("mfa_token_invalid");
    const again = await askedForPasskey();
    expect(await answer(again.tempToken, device.get(again.passkey))).toMatchObject({ kind: "completed" });
  });

  test("a refused passkey counts as an attempt of the enrollment, and the tenth is the last", async () => {
    const { tempToken } = await enrollment();
    const device = new TestAuthenticator();
    for (let tries = 0; tries < 5; tries += 1) {
      const { options } = await beginPasskeyRegistrationAtLogin(deps, tempToken);
      const attestation = device.create(options, { flags: UP });
      expect(await failure(complete(tempToken, attestation))).toBe("passkey_invalid");
    }
    expect(await failure(beginPasskeyRegistrationAtLogin(deps, tempToken))).toBe("mfa_token_invalid");
    expect(deps.tokenService.issueSession).not.toHaveBeenCalled();
  });

  test("a registration of a session or of another login is none of this login", async () => {
    const first = await enrollment();
    const second = await enrollment();
    const device = new TestAuthenticator();
    await beginPasskeyRegistrationAtLogin(deps, first.tempToken);
    for (const options of [
      await beginPasskeyRegistration(deps, owner()),
      (await beginPasskeyRegistrationAtLogin(deps, second.tempToken)).options,
    ])
      expect(await failure(complete(first.tempToken, device.create(options)))).toBe("passkey_invalid");
    const { options } = await beginPasskeyRegistrationAtLogin(deps, first.tempToken);
    const registration = { owner: owner(), name: "Phone", attestation: device.create(options) };
    expect(await failure(registerPasskey(deps, registration, context()))).toBe("passkey_invalid");
  });

  test("of two enrollments at once, one wins", async () => {
    const [first, second] = [await enrollment(), await enrollment()];
    const attempts = [];
    for (const { tempToken } of [first, second]) {
      const { options } = await beginPasskeyRegistrationAtLogin(deps, tempToken);
      attempts.push({ tempToken, attestation: new TestAuthenticator().create(options) });
    }
    const outcomes = await Promise.all(
      attempts.map(({ tempToken, attestation }) => failure(complete(tempToken, attestation))),
    );
    expect(outcomes.sort()).toEqual(["done", "mfa_token_invalid"]);
    expect((await getAccount(deps, userId)).passkeyCount).toBe(1);
  });
});

test("a new passkey ends the other sessions and whatever they began", async () => {
  await beginStepUp(deps, { userId, sessionId: SESSION, current: 1, wanted: undefined });
  const before = (await getAccount(deps, userId)).sessionEpoch;
  await withPasskey();
  expect((await getAccount(deps, userId)).sessionEpoch).toBe(before + 1);
  expect(deps.tokenService.revokeUserSessions.mock.lastCall?.[0]).toMatchObject({
    userId,
    exceptSessionId: SESSION,
    reason: "passkey_added",
  });
});

test("token-service's outage does not lose the recovery codes of a new passkey", async () => {
  deps.tokenService.revokeUserSessions.mockRejectedValueOnce(new DomainError("service_unavailable"));
  expect((await withPasskey()).recoveryCodes).toHaveLength(10);
  expect(await database.ownerSql`select reason from session_ends`).toEqual([{ reason: "passkey_added" }]);
});

test("an administrator's reset removes passkeys too", async () => {
  await withPasskey();
  await withPasskey();
  expect(await logIn()).toMatchObject({ kind: "mfaChallenge" });
  await resetUserMfa(deps, userId, asOperator());
  expect(await getAccount(deps, userId)).toMatchObject({ mfaEnabled: false, passkeyCount: 0 });
  expect(await codesLeft()).toBe(0);
  expect(await logIn()).toMatchObject({ kind: "completed" });
});
