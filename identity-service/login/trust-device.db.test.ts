import { createHash, randomBytes } from "node:crypto";
import { generateSync } from "otplib";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { newCallContext } from "#kit/rpc/call-context.ts";
import type { DomainError } from "#kit/values/errors.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { changePassword } from "../accounts/change-password.ts";
import { forgotPassword } from "../accounts/mail-a-link.ts";
import { register } from "../accounts/register.ts";
import { resetPassword } from "../accounts/reset-password.ts";
import { undoAccessChange } from "../accounts/undo-change.ts";
import { endUserSessions } from "../admin/end-user-sessions.ts";
import { resetUserMfa } from "../admin/reset-user-mfa.ts";
import { setUserAccess } from "../admin/set-user-access.ts";
import { beginTotpEnrollment } from "../mfa/begin-totp-enrollment.ts";
import { confirmTotpEnrollment } from "../mfa/confirm-totp-enrollment.ts";
import { disableTotp } from "../mfa/disable-totp.ts";
import { regenerateRecoveryCodes } from "../mfa/give-recovery-codes.ts";
import { TestAuthenticator } from "../passkeys/authenticator.fixture.ts";
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
import { readOutbox, tokensIn } from "../testing/test-mails.ts";
import { createDeviceTokens } from "../throttle/device-token.ts";
import type { Role } from "../users/account.ts";
import { findAccountById } from "../users/account-store.ts";
import { completeLogin } from "./complete-login.ts";
import { completeMfaLogin } from "./complete-mfa-login.ts";
import { deleteEndedLogins } from "./delete-ended-logins.ts";
import { logIn as logInWith } from "./log-in.ts";
import type { LoginResult } from "./login-result.ts";
import { listTrustedDevices, removeTrustedDevice } from "./trust-device.ts";

const DAYS = 30;
const DAY_MS = 24 * 3_600_000;
const FROM = { clientIp: "192.0.2.1", userAgent: "Firefox/1 Windows" };
const ELSEWHERE = { ...FROM, clientIp: "203.0.113.7" };
const SESSION = "019a0000-0000-7000-8000-00000000000a";
const BEN = { email: "ben@example.com", password: "Password123!", firstName: "Ben", lastName: "Smith" };

let database: TestDatabase;
let deps: TestDeps;
let userId: string;
let nowMs: number;
let secret: string;

beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
beforeEach(async () => {
  const started = await startWithAnna(database);
  const now = () => new Date(nowMs);
  nowMs = Date.parse("2031-01-02T03:04:05.678Z");
  const deviceTokens = createDeviceTokens(randomBytes(32), now);
  deps = { ...started.deps, now, deviceTokens, trustedDeviceDays: DAYS };
  userId = started.userId;
  await proveCredentials(database.ownerSql, userId);
  secret = await enrol(userId);
  await database.ownerSql`truncate mail_outbox, security_events`;
});
afterAll(() => database.drop());

const context = () => ({ ...newCallContext({ budgetMs: 60_000 }), caller: "gateway" as const });
const codeNow = (of = secret) => {
  // A code is good once.
  nowMs += 30_000;
  return generateSync({ secret: of, epoch: Math.floor(nowMs / 1_000) });
};
async function enrol(who: string): Promise<string> {
  const begun = await beginTotpEnrollment(
    deps,
    { ...sessionAt(deps), userId: who, password: ANNA.password, ...FROM },
    soon(),
  );
  const confirmation = { userId: who, sessionId: SESSION, code: codeNow(begun.secret), ...FROM };
  await confirmTotpEnrollment(deps, { ...sessionAt(deps), ...confirmation }, context());
  return begun.secret;
}
const logIn = (deviceToken: string, from = FROM, { email, password } = ANNA) =>
  logInWith(deps, { email, password, deviceToken, ...from }, context());
async function verify(
  login: LoginResult,
  { trustDevice = false, deviceToken = "", from = FROM, of = secret } = {},
): Promise<LoginResult> {
  if (login.kind !== "mfaChallenge") throw new Error(`no code is asked for: ${login.kind}`);
  const attempt = { tempToken: login.tempToken, code: codeNow(of), deviceToken, trustDevice, ...from };
  return completeMfaLogin(deps, attempt, context());
}
function tokenIn(login: LoginResult): string {
  if (login.kind !== "completed") throw new Error(`not completed: ${login.kind}`);
  return login.deviceToken;
}
/** Unlike logins with a password, any number at once. */
async function comeFromProvider(deviceToken: string): Promise<LoginResult> {
  const user = await findAccountById(deps.sql, userId);
  if (user === undefined) throw new Error("no user");
  const proven = { user, amr: ["fed"], authTime: deps.now() };
  return completeLogin(deps, { ...proven, ifEnded: "oauth_failed" }, { ...FROM, deviceToken }, context());
}
/** Logs in with a code. Returns the device token. */
const trust = async (deviceToken = "", from = FROM) =>
  tokenIn(await verify(await logIn(deviceToken, from), { trustDevice: true, deviceToken, from }));
const listed = () => listTrustedDevices(deps, userId);
const secretOf = (deviceToken: string) => deps.deviceTokens.read(deviceToken)?.trustSecret;
const events = async () =>
  (await database.ownerSql`select type, reason from security_events order by id`).map(({ type, reason }) =>
    `${type} ${reason}`.trim(),
  );
const failure = (work: Promise<unknown>) =>
  work.then(
    () => "done",
    (error: DomainError) => error.code,
  );

test("a trusted device logs in without a code for its time, and such a session has one factor", async () => {
  const offered = await logIn("");
  expect(offered).toMatchObject({ kind: "mfaChallenge", trustDeviceDays: DAYS });
  let deviceToken = tokenIn(await verify(offered, { trustDevice: true }));
  const begunMs = nowMs;

  deps.tokenService.issueSession.mockClear();
  nowMs = begunMs + DAY_MS;
  deviceToken = tokenIn(await logIn(deviceToken));
  nowMs = begunMs + DAYS * DAY_MS - 1;
  deviceToken = tokenIn(await logIn(deviceToken));
  const sessions = deps.tokenService.issueSession.mock.calls.map(([session]) => session);
  expect(sessions).toHaveLength(2);
  for (const session of sessions) expect(session).toMatchObject({ amr: ["pwd"], acr: 1 });

  nowMs = begunMs + DAYS * DAY_MS;
  expect(await logIn(deviceToken)).toMatchObject({ kind: "mfaChallenge" });
});

test("without the wish, and by a wish without a code, no device is trusted", async () => {
  const unasked = tokenIn(await verify(await logIn("")));
  expect(secretOf(unasked)).toBeUndefined();
  expect(await logIn(unasked)).toMatchObject({ kind: "mfaChallenge" });

  const user = await findAccountById(deps.sql, userId);
  if (user === undefined) throw new Error("no user");
  const origin = { ...FROM, deviceToken: "" };
  const proven = {
    user: { ...user, mfaEnabled: false },
    amr: ["pwd"],
    authTime: deps.now(),
    trustDevice: true,
  };
  const completed = await completeLogin(
    deps,
    { ...proven, ifEnded: "invalid_credentials" },
    origin,
    context(),
  );
  expect(secretOf(tokenIn(completed))).toBeUndefined();
  expect(await listed()).toEqual([]);
});

test("unless the operator wants it, no device is trusted, and a shorter time ends older trust", async () => {
  const deviceToken = await trust();
  deps.trustedDeviceDays = 7;
  nowMs += 7 * DAY_MS;
  expect(await listed()).toEqual([]);
  expect(await logIn(deviceToken)).toMatchObject({ kind: "mfaChallenge", trustDeviceDays: 7 });
  deps.trustedDeviceDays = 0;
  const offered = await logIn(deviceToken);
  expect(offered).toMatchObject({ kind: "mfaChallenge", trustDeviceDays: undefined });
  expect(secretOf(tokenIn(await verify(offered, { trustDevice: true, deviceToken })))).toBeUndefined();
  expect(await listed()).toEqual([]);
});

test("a longer setting prolongs no trust that the user has given for less", async () => {
  const deviceToken = await trust();
  deps.trustedDeviceDays = 90;
  nowMs += DAYS * DAY_MS;
  expect(await listed()).toEqual([]);
  expect(await logIn(deviceToken)).toMatchObject({ kind: "mfaChallenge" });
});

test("users whose role requires a second factor are always asked, also if the role is listed later", async () => {
  const deviceToken = await trust();
  deps.mfaRequiredRoles = new Set<Role>(["USER"]);
  const offered = await logIn(deviceToken);
  expect(offered).toMatchObject({ kind: "mfaChallenge", trustDeviceDays: undefined });
  expect(secretOf(tokenIn(await verify(offered, { trustDevice: true })))).toBeUndefined();
});

test("a role that requires a second factor and comes while a login begins gets no trust", async () => {
  const login = await logIn("");
  deps.tokenService.issueSession.mockImplementationOnce(async () => {
    await database.ownerSql`update users set role = 'AUDITOR' where id = ${userId}`;
    return {
      accessToken: "a",
      refreshToken: "r",
      expiresInS: 900,
      refreshExpiresInS: 604_800,
      sessionId: SESSION,
      userId,
    };
  });
  deps.mfaRequiredRoles = new Set<Role>(["AUDITOR"]);
  expect(secretOf(tokenIn(await verify(login, { trustDevice: true })))).toBeUndefined();
  expect(await listed()).toEqual([]);
});

test("the password stays necessary, and the secret is stored as its hash only", async () => {
  const deviceToken = await trust();
  const guess = logIn(deviceToken, FROM, { ...ANNA, password: "Wrong-Horse-42" });
  expect(await failure(guess)).toBe("invalid_credentials");
  const shown = secretOf(deviceToken) ?? "";
  expect(Buffer.from(shown, "base64url")).toHaveLength(32);
  const [row] = await database.ownerSql<{ hash: Buffer; text: string }[]>`
    select secret_hash as hash, row_to_json(trusted_devices)::text as text from trusted_devices`;
  expect(row?.hash.equals(createHash("sha256").update(shown).digest())).toBe(true);
  expect(row?.text).not.toContain(shown);
});

test("a stolen cookie asks for a code in a network from which its owner never logged in", async () => {
  const deviceToken = await trust();
  const elsewhere = await logIn(deviceToken, ELSEWHERE);
  expect(elsewhere).toMatchObject({ kind: "mfaChallenge" });
  // The code makes the network known and keeps the trust.
  const moved = tokenIn(await verify(elsewhere, { deviceToken, from: ELSEWHERE }));
  expect(await logIn(moved, ELSEWHERE)).toMatchObject({ kind: "completed" });
});

test("a secret opens one login: the copy of a cookie ends the trust of both", async () => {
  const stolen = await trust();
  const next = tokenIn(await logIn(stolen));
  expect(secretOf(next)).not.toBe(secretOf(stolen));
  const [device] = await listed();
  expect(await logIn(stolen)).toMatchObject({ kind: "mfaChallenge" });
  expect(await logIn(next)).toMatchObject({ kind: "mfaChallenge" });
  expect(await listed()).toEqual([]);
  expect(await events()).toContain(`trusted_device_removed device ${device?.id}: replaced secret`);
});

test("a copy is also noticed at a login with a code", async () => {
  const stolen = await trust();
  const thiefs = tokenIn(await logIn(stolen));
  await verify(await logIn(""), { deviceToken: stolen });
  expect(await logIn(thiefs)).toMatchObject({ kind: "mfaChallenge" });
});

test("of logins at once with one secret, at most one needs no code", async () => {
  const deviceToken = await trust();
  const results = await Promise.all(Array.from({ length: 8 }, () => comeFromProvider(deviceToken)));
  const completed = results.filter(({ kind }) => kind === "completed");
  expect(completed.length).toBeLessThanOrEqual(1);
  expect(results.filter(({ kind }) => kind === "mfaChallenge")).toHaveLength(8 - completed.length);
});

test("a login whose secret another login uses meanwhile asks for a code, and its session ends", async () => {
  const deviceToken = await trust();
  deps.tokenService.issueSession.mockImplementationOnce(async () => {
    expect(await comeFromProvider(deviceToken)).toMatchObject({ kind: "completed" });
    return {
      accessToken: "a",
      refreshToken: "r",
      expiresInS: 900,
      refreshExpiresInS: 604_800,
      sessionId: SESSION,
      userId,
    };
  });
  expect(await comeFromProvider(deviceToken)).toMatchObject({ kind: "mfaChallenge" });
  const revoked = { sessionId: SESSION, userId, reason: "trust_ended" };
  expect(deps.tokenService.revokeSession).toHaveBeenCalledWith(revoked, expect.anything());
});

test("a device that is taken back while it logs in gets no session without a code", async () => {
  const deviceToken = await trust();
  const [device] = await listed();
  deps.tokenService.issueSession.mockImplementationOnce(async () => {
    await removeTrustedDevice(
      deps,
      { ...sessionAt(deps, 2), userId, trustedDeviceId: device?.id ?? "" },
      context(),
    );
    return {
      accessToken: "a",
      refreshToken: "r",
      expiresInS: 900,
      refreshExpiresInS: 604_800,
      sessionId: SESSION,
      userId,
    };
  });
  expect(await logIn(deviceToken)).toMatchObject({ kind: "mfaChallenge" });
  const revoked = { sessionId: SESSION, userId, reason: "trust_ended" };
  expect(deps.tokenService.revokeSession).toHaveBeenCalledWith(revoked, expect.anything());
});

test("what was taken back opens nothing any more, and the next secret of it neither", async () => {
  const first = await trust();
  const deviceToken = tokenIn(await logIn(first));
  const [device] = await listed();
  await removeTrustedDevice(
    deps,
    { ...sessionAt(deps, 2), userId, trustedDeviceId: device?.id ?? "" },
    context(),
  );
  expect(await listed()).toEqual([]);
  for (const token of [deviceToken, first])
    expect(await logIn(token)).toMatchObject({ kind: "mfaChallenge" });
  expect(await events()).toContain(`trusted_device_removed device ${device?.id}`);
  const again = removeTrustedDevice(
    deps,
    { ...sessionAt(deps, 2), userId, trustedDeviceId: device?.id ?? "" },
    context(),
  );
  expect(await failure(again)).toBe("not_found");
});

describe("another user", () => {
  let ben: string;
  let bensSecret: string;
  beforeEach(async () => {
    ben = (await register(deps, BEN, soon())).id;
    await proveCredentials(database.ownerSql, ben);
    bensSecret = await enrol(ben);
  });

  test("is asked for a code on a trusted device", async () => {
    const deviceToken = await trust();
    await verify(await logIn("", FROM, BEN), { of: bensSecret });
    expect(await logIn(deviceToken, FROM, BEN)).toMatchObject({ kind: "mfaChallenge" });
    expect(await logIn(deviceToken)).toMatchObject({ kind: "completed" });
  });

  test("makes no network known for somebody else", async () => {
    const deviceToken = await trust();
    await verify(await logIn("", ELSEWHERE, BEN), { of: bensSecret, from: ELSEWHERE });
    expect(await logIn(deviceToken, ELSEWHERE)).toMatchObject({ kind: "mfaChallenge" });
  });

  test("neither sees the devices nor takes them back", async () => {
    await trust();
    const [device] = await listed();
    expect(await listTrustedDevices(deps, ben)).toEqual([]);
    const foreign = removeTrustedDevice(
      deps,
      { ...sessionAt(deps, 2), userId: ben, trustedDeviceId: device?.id ?? "" },
      context(),
    );
    expect(await failure(foreign)).toBe("not_found");
    expect(await listed()).toHaveLength(1);
  });
});

test("a cookie with a forged secret, device, user or end is no trusted one, and ends no trust", async () => {
  const deviceToken = await trust();
  const parts = deviceToken.split(".");
  const forge = (index: number, value: string) => parts.with(index, value).join(".");
  const forged = [
    forge(1, "019a0000-0000-7000-8000-00000000000b"),
    forge(2, "019a0000-0000-7000-8000-00000000000c"),
    forge(4, String(Number(parts[4]) + 1)),
    forge(5, randomBytes(32).toString("base64url")),
    forge(6, randomBytes(32).toString("base64url")),
    deps.deviceTokens.issue({
      id: deps.newId(),
      userId,
      passwordEpoch: 0,
      trustSecret: secretOf(deviceToken),
    }),
  ];
  for (const token of forged) expect(await logIn(token)).toMatchObject({ kind: "mfaChallenge" });
  expect(await logIn(deviceToken)).toMatchObject({ kind: "completed" });
});

test("an own key of the device makes no trust: the secret has to be known", async () => {
  const device = deps.deviceTokens.read(await trust());
  if (device === undefined) throw new Error("no device");
  const guessed = randomBytes(32).toString("base64url");
  const token = deps.deviceTokens.issue({ ...device, trustSecret: guessed });
  expect(await logIn(token)).toMatchObject({ kind: "mfaChallenge" });
});

test("a user has ten trusted devices: the oldest makes room, and a device counts once", async () => {
  const first = await trust();
  const tokens: string[] = [];
  for (let index = 0; index < 9; index += 1) tokens.push(await trust());
  const again = await trust(tokens[8], ELSEWHERE);
  expect(await listed()).toHaveLength(10);
  const second = tokenIn(await logIn(first));
  await trust();
  expect(await listed()).toHaveLength(10);
  expect(await logIn(second)).toMatchObject({ kind: "mfaChallenge" });
  expect(await logIn(again, ELSEWHERE)).toMatchObject({ kind: "completed" });
  expect(await logIn(tokens[0] ?? "")).toMatchObject({ kind: "completed" });
});

test("the owner gets a mail whose link takes everything back, and the audit log the facts", async () => {
  const deviceToken = await trust();
  const [device] = await listed();
  expect(await events()).toEqual([`device_trusted device ${device?.id}`]);
  await logIn(deviceToken);
  expect(await events()).toContain(`trusted_device_used device ${device?.id}`);
  const mails = (await readOutbox(database.ownerSql)).filter(({ template }) => template === "device-trusted");
  expect(mails).toEqual([
    {
      template: "device-trusted",
      recipient: ANNA.email,
      data: {
        occurredAt: expect.stringContaining("2031"),
        until: expect.stringContaining("2031-02-01"),
        ip: FROM.clientIp,
        browser: [{ phrase: "device", values: { browser: "Firefox", system: "Windows" } }],
        link: expect.stringContaining("undo_access_change:"),
      },
    },
  ]);
  const [link = ""] = await tokensIn(database.ownerSql, deps.linkTokens, "device-trusted");
  await undoAccessChange(deps, link, context());
  expect(await listed()).toEqual([]);
});

test("the list says when a device was trusted and used last, from where, and when it ends", async () => {
  const deviceToken = await trust();
  const createdAt = deps.now();
  nowMs += DAY_MS;
  await logIn(deviceToken, { ...FROM, userAgent: "Firefox/2" });
  expect(await listed()).toEqual([
    {
      id: expect.any(String),
      createdAt,
      lastUsedAt: deps.now(),
      expiresAt: new Date(createdAt.getTime() + DAYS * DAY_MS),
      clientIp: FROM.clientIp,
      userAgent: "Firefox/2",
    },
  ]);
  expect((await listed())[0]?.id).not.toBe(deps.deviceTokens.read(deviceToken)?.id);
});

test("a password that has to be changed needs the code first, and no trust begins before it is set", async () => {
  const deviceToken = await trust();
  await database.ownerSql`update users set must_change_password = true where id = ${userId}`;
  const asked = await logIn(deviceToken);
  expect(asked).toMatchObject({ kind: "mfaChallenge" });
  const before = await listed();
  expect(await verify(asked, { trustDevice: true })).toMatchObject({ kind: "passwordChange" });
  expect(await listed()).toEqual(before);
});

const NEW_PASSWORD = "Another-Horse-43";

describe("the trust ends with", () => {
  const ends: Record<string, () => Promise<unknown>> = {
    "a new password": () => {
      const change = { currentPassword: ANNA.password, newPassword: NEW_PASSWORD, clientIp: FROM.clientIp };
      return changePassword(
        deps,
        { ...sessionAt(deps, 2), userId, sessionId: SESSION, ...change },
        context(),
      );
    },
    "a password reset": async () => {
      await forgotPassword(deps, { email: ANNA.email });
      await deps.afterAnswer.drained();
      const [token = ""] = await tokensIn(database.ownerSql, deps.linkTokens, "reset-password");
      await resetPassword(deps, { token, newPassword: NEW_PASSWORD }, context());
    },
    "a second factor that is turned off and on": async () => {
      const proof = { userId, sessionId: SESSION, password: ANNA.password, code: codeNow(), ...FROM };
      await disableTotp(deps, { ...sessionAt(deps), ...proof }, context());
      secret = await enrol(userId);
    },
    "new recovery codes": () =>
      regenerateRecoveryCodes(deps, { ...sessionAt(deps), userId, code: codeNow(), ...FROM }, context()),
    "a new passkey": async () => {
      const owner = { userId, sessionId: SESSION, acr: 2, authTime: deps.now(), ...FROM } as const;
      const attestation = new TestAuthenticator().create(await beginPasskeyRegistration(deps, owner));
      await registerPasskey(deps, { owner, name: "Phone", attestation }, context());
    },
    "a reset of the second factor by an administrator": async () => {
      await resetUserMfa(deps, userId, asOperator());
      secret = await enrol(userId);
    },
    "the end of the sessions by an administrator": () => endUserSessions(deps, userId, asOperator()),
    "the end of all sessions by the owner": () =>
      endOwnSessions(deps, { userId, exceptSessionId: "" }, context()),
    "the end of the other sessions": () =>
      endOwnSessions(deps, { userId, exceptSessionId: SESSION }, context()),
    "another role": () => setUserAccess(deps, { userId, role: "AUDITOR" }, asOperator()),
    "a disabled account": async () => {
      await setUserAccess(deps, { userId, status: "disabled" }, asOperator());
      await setUserAccess(deps, { userId, status: "active" }, asOperator());
    },
  };

  test.each(Object.keys(ends))("%s", async (what) => {
    const deviceToken = tokenIn(await logIn(await trust()));
    await ends[what]?.();
    expect(await listed()).toEqual([]);
    const person = what.includes("password") ? { ...ANNA, password: NEW_PASSWORD } : ANNA;
    expect(await logIn(deviceToken, FROM, person)).toMatchObject({ kind: "mfaChallenge" });
  });
});

test("a change that ends sessions while a device becomes trusted leaves no trust", async () => {
  const login = await logIn("");
  deps.tokenService.issueSession.mockImplementationOnce(async () => {
    const session = {
      accessToken: "a",
      refreshToken: "r",
      expiresInS: 900,
      refreshExpiresInS: 604_800,
      sessionId: SESSION,
      userId,
    };
    // Between the check of the session's epoch and the trust.
    const { digestNetwork } = deps;
    deps.digestNetwork = (...args) => {
      ended = endUserSessions(deps, userId, asOperator());
      return digestNetwork(...args);
    };
    return session;
  });
  let ended: Promise<unknown> | undefined;
  await failure(verify(login, { trustDevice: true }));
  await ended;
  expect(ended).toBeDefined();
  expect(await listed()).toEqual([]);
});

test("a passkey as the second factor makes a device trusted, too", async () => {
  const owner = { userId, sessionId: SESSION, acr: 3, authTime: deps.now(), ...FROM } as const;
  const authenticator = new TestAuthenticator();
  const attestation = authenticator.create(await beginPasskeyRegistration(deps, owner));
  await registerPasskey(deps, { owner, name: "Phone", attestation }, context());
  const asked = await logIn("");
  if (asked.kind !== "mfaChallenge" || asked.passkey === undefined) throw new Error("no options");
  const passkey = authenticator.get(asked.passkey);
  const attempt = {
    tempToken: asked.tempToken,
    code: "",
    passkey,
    deviceToken: "",
    trustDevice: true,
    ...FROM,
  };
  const deviceToken = tokenIn(await completeMfaLogin(deps, attempt, context()));
  deps.tokenService.issueSession.mockClear();
  expect(await logIn(deviceToken)).toMatchObject({ kind: "completed" });
  expect(deps.tokenService.issueSession.mock.lastCall?.[0]).toMatchObject({ amr: ["pwd"], acr: 1 });
});

test("ended ones are deleted a day later, the others stay", async () => {
  await trust();
  nowMs += DAYS * DAY_MS + DAY_MS;
  await deleteEndedLogins(deps);
  expect(await database.ownerSql`select from trusted_devices`).toHaveLength(1);
  nowMs += 1;
  await deleteEndedLogins(deps);
  expect(await database.ownerSql`select from trusted_devices`).toHaveLength(0);
});
