import { createHash } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { transaction } from "#kit/database/postgres.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import type { DomainError } from "#kit/values/errors.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { register } from "../accounts/register.ts";
import { setUserAccess } from "../admin/set-user-access.ts";
import { createIdentityRpc } from "../identity-rpc.ts";
import { beginPasskeyLogin, logInWithPasskey } from "../login/log-in-with-passkey.ts";
import type { Owner } from "../passwords/prove-owner.ts";
import { asOperator, proveCredentials, soon, startWithAnna, type TestDeps } from "../testing/test-deps.ts";
import { MemoryThrottle } from "../throttle/memory-throttle.ts";
import { throttleLimits } from "../throttle/throttle.ts";
import { lockAccountForMfa } from "../users/account-store.ts";
import {
  BE,
  BS,
  type Ceremony,
  ED,
  extensionOf,
  type TestAlgorithm,
  TestAuthenticator,
  UP,
  UV,
} from "./authenticator.fixture.ts";
import { deletePasskey } from "./delete-passkey.ts";
import { renamePasskey } from "./own-passkeys.ts";
import { beginPasskeyCeremony, deleteOldChallenges, finishPasskeyCeremony } from "./passkey-ceremony.ts";
import type { PasskeyPurpose } from "./passkey-challenge-store.ts";
import { listPasskeys } from "./passkey-store.ts";
import { beginPasskeyRegistration, MAX_PASSKEYS_OF_USER, registerPasskey } from "./register-passkey.ts";

const FROM = { clientIp: "192.0.2.1", userAgent: "Firefox/1 Windows" };
const BEN = { email: "ben@example.com", password: "Password123!", firstName: "Ben", lastName: "Smith" };
const BOUND_TO = createHash("sha256").update("the token of the other ceremony").digest();

let database: TestDatabase;
let deps: TestDeps;
let userId: string;
let nowMs: number;
let owner: Owner;
let authenticator: TestAuthenticator;

beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
beforeEach(async () => {
  await emptyTables(database.ownerSql, "passkey_challenges");
  ({ deps, userId } = await startWithAnna(database));
  nowMs = deps.now().getTime();
  deps.now = () => new Date(nowMs);
  await proveCredentials(database.ownerSql, userId);
  await forget();
  owner = ownerOf(userId);
  authenticator = new TestAuthenticator();
});
afterAll(() => database.drop());

const ownerOf = (id: string): Owner => ({
  userId: id,
  sessionId: deps.newId(),
  acr: 3,
  authTime: deps.now(),
  ...FROM,
});
const context = () => ({ ...newCallContext({ budgetMs: 60_000 }), caller: "gateway" as const });
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => "done",
    (error: DomainError) => error.code,
  );
const forget = () => emptyTables(database.ownerSql, "mail_outbox", "security_events");
const mails = async () =>
  (await database.ownerSql`select template from mail_outbox order by id`).map(({ template }) => template);
const events = async () =>
  (await database.ownerSql`select type, reason from security_events order by id`).map(({ type, reason }) =>
    `${type} ${reason}`.trim(),
  );
const challenges = async () => (await database.ownerSql`select * from passkey_challenges`).length;

async function enrol(device = authenticator, who = owner, changes: Partial<Ceremony> = {}) {
  const options = await beginPasskeyRegistration(deps, who);
  const attestation = device.create(options, changes);
  const registration = { owner: who, name: " My phone ", attestation };
  return (await registerPasskey(deps, registration, context())).passkey;
}
const beginLogin = () => beginPasskeyLogin(deps, { clientIp: FROM.clientIp, deviceToken: "" });
async function logIn(device = authenticator, changes: Partial<Ceremony> = {}) {
  const { challengeToken, options } = await beginLogin();
  const assertion = device.get(options, changes);
  return logInWithPasskey(deps, { challengeToken, assertion, ...FROM, deviceToken: "" }, context());
}
async function ben(): Promise<{ device: TestAuthenticator; id: string }> {
  const { id } = await register(deps, BEN, soon());
  await proveCredentials(database.ownerSql, id);
  const device = new TestAuthenticator();
  await enrol(device, ownerOf(id));
  return { device, id };
}

describe("registration", () => {
  test.each([
    ["Smith", "Anna Smith"],
    ["", "Anna"],
  ])("with the last name %j an authenticator shows the user as %j", async (lastName, displayName) => {
    await database.ownerSql`update users set last_name = ${lastName} where id = ${userId}`;
    expect((await beginPasskeyRegistration(deps, owner)).user).toMatchObject({ displayName });
  });

  test("the options ask for a discoverable credential with user verification, and name the user by 16 bytes", async () => {
    const options = await beginPasskeyRegistration(deps, owner);
    expect(options).toMatchObject({
      rp: { id: "gatehouse.example", name: "Gatehouse" },
      user: { id: Buffer.from(userId.replaceAll("-", ""), "hex").toString("base64url") },
      attestation: "none",
      authenticatorSelection: { residentKey: "required", userVerification: "required" },
      pubKeyCredParams: [{ alg: -8 }, { alg: -7 }, { alg: -257 }],
      excludeCredentials: [],
      timeout: 300_000,
    });
    expect(Buffer.from(options.challenge, "base64url")).toHaveLength(32);
    const rows = JSON.stringify(await database.ownerSql`select * from passkey_challenges`);
    expect(rows).not.toContain(Buffer.from(options.challenge, "base64url").toString("hex"));
  });

  test.each(["ES256", "EdDSA", "RS256"] as const)(
    "a passkey of %s is kept and logs in",
    async (algorithm) => {
      authenticator = new TestAuthenticator(algorithm);
      expect(await enrol()).toMatchObject({
        name: "My phone",
        transports: ["internal", "hybrid"],
        isBackedUp: false,
        lastUsedAt: null,
      });
      expect(await mails()).toEqual(["passkey-added"]);
      expect(await events()).toEqual(["passkey_added"]);
      nowMs += 1_000;
      expect(await logIn()).toMatchObject({ kind: "completed", user: { id: userId } });
      expect((await listPasskeys(database.sql, userId))[0]?.lastUsedAt).toEqual(deps.now());
      expect((await beginPasskeyRegistration(deps, owner)).excludeCredentials).toMatchObject([
        { id: authenticator.id, transports: ["internal", "hybrid"] },
      ]);
    },
  );

  test.each(["ES256", "EdDSA", "RS256"] as const)(
    "the self attestation of a software authenticator (%s) is verified and accepted",
    async (algorithm) => {
      authenticator = new TestAuthenticator(algorithm);
      const options = await beginPasskeyRegistration(deps, owner);
      const attestation = authenticator.create(options, { fmt: "packed" });
      await registerPasskey(deps, { owner, name: "Vault", attestation }, context());
      expect(await logIn()).toMatchObject({ kind: "completed", user: { id: userId } });
    },
  );

  const WRONG: [string, Partial<Ceremony>, TestAlgorithm?][] = [
    ["another origin", { origin: "https://gatehouse.example.evil" }],
    ["another RP id", { rpId: "evil.example" }],
    ["another type", { type: "webauthn.get" }],
    ["no user verification", { flags: UP }],
    ["no user presence", { flags: UV }],
    ["a frame of another site", { crossOrigin: true }],
    ["a frame of a named site", { crossOrigin: true, topOrigin: "https://evil.example" }],
    ["a site around it", { topOrigin: "https://evil.example" }],
    ["an unknown algorithm", {}, "ES384"],
    ["an oversized attestation", { flags: UP | UV | ED, padding: extensionOf(4_096) }],
    ["bytes behind the key", { padding: Buffer.alloc(1) }],
    ["an attestation in a format of certificates", { fmt: "fido-u2f" }],
    ["an attestation with certificates", { fmt: "packed", attStmt: new Map([["x5c", Buffer.alloc(9)]]) }],
    [
      "an attestation with another key",
      { fmt: "packed", attStmt: new Map([["ecdaaKeyId", Buffer.alloc(9)]]) },
    ],
    ["a self attestation of another key", { fmt: "packed", signedWith: new TestAuthenticator().privateKey }],
    ["a self attestation that names another algorithm", { fmt: "packed", attStmt: new Map([["alg", -257]]) }],
    ["a self attestation without a signature", { fmt: "packed", attStmt: new Map([["sig", Buffer.of()]]) }],
    ["a statement in the format none", { attStmt: new Map([["alg", -7]]) }],
    ["a backed-up credential that cannot be", { flags: UP | UV | BS }],
    ["another credential id outside", { credentialId: Buffer.alloc(32).toString("base64url") }],
    ["a challenge of nobody", { challenge: "A".repeat(43) }],
    ["a challenge with padding", { challenge: `${"A".repeat(43)}=` }],
  ];
  test.each(WRONG)(
    "%s is refused, and the challenge is of no use any more",
    async (_what, changes, algorithm) => {
      const device = new TestAuthenticator(algorithm);
      const options = await beginPasskeyRegistration(deps, owner);
      const attempt = (wrong: Partial<Ceremony>) =>
        codeOf(
          registerPasskey(deps, { owner, name: "x", attestation: device.create(options, wrong) }, context()),
        );
      expect(await attempt(changes)).toBe("passkey_invalid");
      if (changes.challenge === undefined && !changes.crossOrigin && !changes.topOrigin) {
        expect(await challenges()).toBe(0);
        expect(await attempt({})).toBe("passkey_invalid");
      }
      expect(await listPasskeys(database.sql, userId)).toEqual([]);
      expect(await mails()).toEqual([]);
    },
  );

  test.each(["", "AAAA", "!", "x".repeat(5_000)])(
    "the attestation %j is refused",
    async (attestationObject) => {
      const attestation = {
        ...authenticator.create(await beginPasskeyRegistration(deps, owner)),
        attestationObject,
      };
      expect(await codeOf(registerPasskey(deps, { owner, name: "x", attestation }, context()))).toBe(
        "passkey_invalid",
      );
    },
  );

  test.each(["", "bnVsbA", "e30", "W10", "!"])("the client data %j is refused", async (clientDataJson) => {
    const attestation = {
      ...authenticator.create(await beginPasskeyRegistration(deps, owner)),
      clientDataJson,
    };
    expect(await codeOf(registerPasskey(deps, { owner, name: "x", attestation }, context()))).toBe(
      "passkey_invalid",
    );
  });

  test("it belongs to its session, its user and five minutes", async () => {
    const attestation = authenticator.create(await beginPasskeyRegistration(deps, owner));
    const attempt = (who: Owner) =>
      codeOf(registerPasskey(deps, { owner: who, name: "x", attestation }, context()));
    expect(await attempt(ownerOf(userId))).toBe("passkey_invalid");
    const { id } = await ben();
    expect(await attempt({ ...owner, userId: id })).toBe("passkey_invalid");
    nowMs += 300_000;
    expect(await attempt(owner)).toBe("passkey_invalid");
    nowMs -= 1;
    expect(await attempt(owner)).toBe("done");
  });

  test("fifty answers at once: one registers", async () => {
    const attestation = authenticator.create(await beginPasskeyRegistration(deps, owner));
    const codes = await Promise.all(
      Array.from({ length: 50 }, () =>
        codeOf(registerPasskey(deps, { owner, name: "x", attestation }, context())),
      ),
    );
    expect(codes.filter((code) => code === "done")).toHaveLength(1);
    expect(await listPasskeys(database.sql, userId)).toHaveLength(1);
  });

  test("a credential of somebody else is refused like a wrong one", async () => {
    const { device } = await ben();
    expect(await codeOf(enrol(device))).toBe("passkey_invalid");
    expect(await listPasskeys(database.sql, userId)).toEqual([]);
  });

  test("a session older than five minutes, unproven credentials and a 21st passkey are refused", async () => {
    nowMs += 300_001;
    expect(await codeOf(enrol())).toBe("step_up_required");
    nowMs -= 1;
    await database.ownerSql`update users set credentials_proven_at = null, credentials_proven_email = null`;
    expect(await codeOf(enrol())).toBe("email_not_verified");
    await proveCredentials(database.ownerSql, userId);
    for (let count = 1; count < MAX_PASSKEYS_OF_USER; count += 1)
      await enrol(new TestAuthenticator(), ownerOf(userId));
    const late = await beginPasskeyRegistration(deps, owner);
    await database.ownerSql`
      insert into passkeys (id, user_id, credential_id, public_key, sign_count, transports, is_backup_eligible,
        is_backed_up, name, created_at)
      select ${deps.newId()}, user_id, '\\x00112233445566778899aabbccddeeff', public_key, 0, transports, false, false,
        'Another', created_at
      from passkeys limit 1`;
    expect(await codeOf(enrol())).toBe("conflict");
    const attestation = authenticator.create(late);
    expect(await codeOf(registerPasskey(deps, { owner, name: "x", attestation }, context()))).toBe(
      "conflict",
    );
    expect(await listPasskeys(database.sql, userId)).toHaveLength(MAX_PASSKEYS_OF_USER);
  });

  test.each(["", "  ", "a\nb", "\u202Egnp", "x".repeat(65)])("the name %j is refused", async (name) => {
    const attestation = authenticator.create(await beginPasskeyRegistration(deps, owner));
    expect(await codeOf(registerPasskey(deps, { owner, name, attestation }, context()))).toBe(
      "validation_failed",
    );
  });
});

describe("login", () => {
  beforeEach(async () => {
    await enrol();
    await forget();
  });

  test("the options name nobody, and the session says how the user proved who they are", async () => {
    const { challengeToken, options } = await beginLogin();
    expect(challengeToken).toMatch(/^[\w-]{43}$/);
    expect(options).toEqual({
      rpId: "gatehouse.example",
      challenge: expect.stringMatching(/^[\w-]{43}$/),
      allowCredentials: [],
      timeout: 300_000,
      userVerification: "required",
    });
    await logIn();
    expect(deps.tokenService.issueSession.mock.lastCall?.[0]).toMatchObject({
      userId,
      amr: ["hwk", "user", "mfa"],
      acr: 3,
      authTime: deps.now(),
    });
  });

  test("a credential that can be backed up is a key in software", async () => {
    const synced = new TestAuthenticator();
    await enrol(synced, owner, { flags: UP | UV | BE });
    await logIn(synced, { flags: UP | UV | BE | BS });
    expect(deps.tokenService.issueSession.mock.lastCall?.[0].amr).toEqual(["swk", "user", "mfa"]);
    expect((await listPasskeys(database.sql, userId)).map(({ isBackedUp }) => isBackedUp)).toEqual([
      false,
      true,
    ]);
    expect(await codeOf(logIn(synced))).toBe("passkey_invalid");
  });

  test.each(["ES256", "EdDSA", "RS256"] as const)(
    "the self attestation of a software authenticator (%s) is verified and accepted",
    async (algorithm) => {
      authenticator = new TestAuthenticator(algorithm);
      const options = await beginPasskeyRegistration(deps, owner);
      const attestation = authenticator.create(options, { fmt: "packed" });
      await registerPasskey(deps, { owner, name: "Vault", attestation }, context());
      expect(await logIn()).toMatchObject({ kind: "completed", user: { id: userId } });
    },
  );

  const WRONG: [string, Partial<Ceremony>][] = [
    ["another origin", { origin: "http://gatehouse.example" }],
    ["another RP id", { rpId: "evil.example" }],
    ["another type", { type: "webauthn.create" }],
    ["no user verification", { flags: UP }],
    ["no user presence", { flags: UV }],
    ["a frame of another site", { crossOrigin: true }],
    ["a frame of a named site", { crossOrigin: true, topOrigin: "https://evil.example" }],
    ["a credential that has become one for backups", { flags: UP | UV | BE }],
    ["a backed-up credential that cannot be", { flags: UP | UV | BS }],
    ["no user handle", { userHandle: "" }],
    ["another user handle", { userHandle: Buffer.alloc(16).toString("base64url") }],
    ["an unknown credential", { credentialId: Buffer.alloc(32).toString("base64url") }],
    ["another key", { signedWith: new TestAuthenticator().privateKey }],
    ["a challenge of nobody", { challenge: "A".repeat(43) }],
    ["a challenge that is no text of 32 bytes", { challenge: "A" }],
  ];
  test.each(WRONG)("%s is refused like every other one, and no session begins", async (_what, changes) => {
    const refusal = await logIn(authenticator, changes).catch((error: DomainError) => error);
    expect(refusal).toMatchObject({
      code: "passkey_invalid",
      message: expect.stringMatching(/^The passkey's answer/),
    });
    expect(deps.tokenService.issueSession).not.toHaveBeenCalled();
    expect(await mails()).toEqual([]);
    expect(await events()).toEqual([]);
  });

  test("another user's credential with one's own handle is refused", async () => {
    const { device } = await ben();
    expect(await codeOf(logIn(device, { userHandle: authenticator.userHandle }))).toBe("passkey_invalid");
    expect(await codeOf(logIn(device))).toBe("done");
  });

  test("an answer is good once, with its token, for five minutes; a wrong one uses the challenge up", async () => {
    const { challengeToken, options } = await beginLogin();
    const other = await beginLogin();
    const attempt = (token: string, changes: Partial<Ceremony> = {}) => {
      const login = { challengeToken: token, assertion: authenticator.get(options, changes) };
      return codeOf(logInWithPasskey(deps, { ...login, ...FROM, deviceToken: "" }, context()));
    };
    expect(await attempt(other.challengeToken)).toBe("passkey_invalid");
    for (const token of ["", "x", "\0".repeat(43)]) expect(await attempt(token)).toBe("passkey_invalid");
    nowMs += 300_000;
    expect(await attempt(challengeToken)).toBe("passkey_invalid");
    nowMs -= 1;
    expect(await attempt(challengeToken)).toBe("done");
    expect(await attempt(challengeToken)).toBe("passkey_invalid");
    const second = await beginLogin();
    const wrong = authenticator.get(second.options, { flags: UP });
    const login = { challengeToken: second.challengeToken, ...FROM, deviceToken: "" };
    expect(await codeOf(logInWithPasskey(deps, { ...login, assertion: wrong }, context()))).toBe(
      "passkey_invalid",
    );
    const right = authenticator.get(second.options);
    expect(await codeOf(logInWithPasskey(deps, { ...login, assertion: right }, context()))).toBe(
      "passkey_invalid",
    );
  });

  test("fifty answers at once: one session begins", async () => {
    const { challengeToken, options } = await beginLogin();
    const assertion = authenticator.get(options);
    const codes = await Promise.all(
      Array.from({ length: 50 }, () =>
        codeOf(logInWithPasskey(deps, { challengeToken, assertion, ...FROM, deviceToken: "" }, context())),
      ),
    );
    expect(codes.filter((code) => code === "done")).toHaveLength(1);
    expect(deps.tokenService.issueSession).toHaveBeenCalledTimes(1);
  });

  test("a counter that does not grow is refused, and its owner is notified once an hour", async () => {
    await logIn(authenticator, { counter: 5 });
    await forget();
    for (const counter of [5, 4, 0]) {
      expect(await codeOf(logIn(authenticator, { counter }))).toBe("passkey_invalid");
    }
    expect(deps.tokenService.issueSession).toHaveBeenCalledTimes(1);
    expect(await events()).toEqual(Array(3).fill("passkey_refused sign_count"));
    expect(await mails()).toEqual(["passkey-refused"]);
    expect(await codeOf(logIn(authenticator, { counter: 6 }))).toBe("done");
  });

  test("a lower counter with a wrong signature notifies nobody: anybody could cause the mail", async () => {
    await logIn(authenticator, { counter: 5 });
    await forget();
    const { privateKey: signedWith } = new TestAuthenticator();
    expect(await codeOf(logIn(authenticator, { counter: 4, signedWith }))).toBe("passkey_invalid");
    expect([...(await mails()), ...(await events())]).toEqual([]);
  });

  test("a disabled account is refused like an unknown one, an unverified one where it matters", async () => {
    await setUserAccess(deps, { userId, status: "disabled" }, asOperator());
    expect(await codeOf(logIn())).toBe("passkey_invalid");
    await setUserAccess(deps, { userId, status: "active" }, asOperator());
    deps.loginRequiresVerifiedEmail = true;
    await database.ownerSql`update users set email_verified = false`;
    expect(await codeOf(logIn())).toBe("passkey_invalid");
    deps.loginRequiresVerifiedEmail = false;
    expect(await codeOf(logIn())).toBe("done");
  });

  test("a demanded change of the password waits for a login with the password", async () => {
    await setUserAccess(deps, { userId, mustChangePassword: true }, asOperator());
    expect(await logIn()).toMatchObject({ kind: "completed" });
  });

  test("a network without a login begins at most its budget", async () => {
    const codes: string[] = [];
    const limits = throttleLimits({ network: 10, everything: 10, callsOfNetwork: 2 });
    deps.throttle = new MemoryThrottle({ limits, now: () => nowMs });
    for (let count = 0; count < 21; count += 1) codes.push(await codeOf(beginLogin()));
    expect(codes.filter((code) => code === "done")).toHaveLength(20);
    expect(codes.at(-1)).toBe("too_many_requests");
    nowMs += 300_000;
    await deleteOldChallenges(deps);
    expect(await challenges()).toBe(0);
  });
});

test("logins of one account with a passkey have a budget of their own", async () => {
  await enrol();
  const limits = throttleLimits({ network: 10, everything: 10, logins: 2 });
  deps.throttle = new MemoryThrottle({ limits, now: () => nowMs });
  const codes = [await codeOf(logIn()), await codeOf(logIn()), await codeOf(logIn())];
  expect(codes).toEqual(["done", "done", "too_many_requests"]);
});

describe("ceremonies of other purposes", () => {
  const PURPOSES = ["second_factor", "step_up", "approval"] as const;
  type Purpose = Exclude<PasskeyPurpose, "registration">;

  async function begin(purpose: Purpose, challenge?: Buffer) {
    const [row] = await database.sql<
      { epoch: number }[]
    >`select session_epoch as epoch from users where id = ${userId}`;
    const user = purpose === "login" ? null : { id: userId, sessionEpoch: row?.epoch ?? 0 };
    const binding = { purpose, boundTo: BOUND_TO, user, ...(challenge && { challenge }) };
    return beginPasskeyCeremony(database.sql, deps, binding);
  }
  const finish = (
    purpose: Purpose,
    assertion: ReturnType<TestAuthenticator["get"]>,
    boundTo = BOUND_TO,
    id = userId,
  ) =>
    transaction(database.sql, async (tx) => {
      const user = await lockAccountForMfa(tx, id);
      return finishPasskeyCeremony(tx, deps, { user, purpose, boundTo, assertion, ...FROM }, context());
    });

  test.each(PURPOSES)(
    "%s: the options name the user's credentials, and the answer is good for it only",
    async (purpose) => {
      expect(await begin(purpose)).toBeUndefined();
      const { id } = await enrol();
      for (const other of [...PURPOSES, "login"] as const) {
        const options = await begin(purpose);
        if (options === undefined) throw new Error("no options");
        expect(options.allowCredentials).toMatchObject([{ id: authenticator.id }]);
        // Authenticators may leave the handle out for a named credential.
        const assertion = authenticator.get(options, {
          userHandle: other === "login" ? authenticator.userHandle : "",
        });
        const used = await finish(other, assertion);
        expect(used?.passkey.id).toBe(other === purpose ? id : undefined);
        if (other === purpose) expect(await finish(purpose, assertion)).toBeUndefined();
      }
    },
  );

  test("an approval's challenge is the one that it was given", async () => {
    await enrol();
    const challenge = createHash("sha256").update("nonce and digest").digest();
    const options = await begin("approval", challenge);
    expect(options?.challenge).toBe(challenge.toString("base64url"));
    const assertion = authenticator.get({ challenge: challenge.toString("base64url") });
    expect(await finish("approval", assertion)).toMatchObject({ amr: ["hwk", "user", "mfa"] });
  });

  test("another token, another user, their credential, and an end of the sessions are refused", async () => {
    await enrol();
    const { device, id } = await ben();
    const answer = async (by = authenticator) => by.get((await begin("step_up")) ?? { challenge: "" });
    expect(await finish("step_up", await answer(), Buffer.alloc(32))).toBeUndefined();
    expect(await finish("step_up", await answer(), BOUND_TO, id)).toBeUndefined();
    expect(await finish("step_up", await answer(device))).toBeUndefined();
    const assertion = await answer();
    await database.ownerSql`update users set session_epoch = session_epoch + 1 where id = ${userId}`;
    expect(await finish("step_up", assertion)).toBeUndefined();
    expect(await finish("step_up", await answer())).toBeDefined();
  });

  test("challenges of many logins push out no other, not even that of an earlier login", async () => {
    await enrol();
    const approval = Buffer.alloc(32, 200);
    const stepUp = await begin("step_up");
    const user = { id: userId, sessionEpoch: 0 };
    await beginPasskeyCeremony(database.sql, deps, { purpose: "approval", boundTo: approval, user });
    await beginPasskeyRegistration(deps, owner);
    for (let count = 0; count < 25; count += 1) {
      nowMs += 1;
      const boundTo = Buffer.alloc(32, count);
      await beginPasskeyCeremony(database.sql, deps, { purpose: "second_factor", boundTo, user });
    }
    expect(
      await database.ownerSql`select purpose, count(*)::int from passkey_challenges group by purpose order by purpose`,
    ).toEqual([
      { purpose: "approval", count: 1 },
      { purpose: "registration", count: 1 },
      { purpose: "second_factor", count: 25 },
      { purpose: "step_up", count: 1 },
    ]);
    expect(await finish("step_up", authenticator.get(stepUp ?? { challenge: "" }))).toBeDefined();
  });

  test("a user has at most twenty open challenges of a purpose, and a token one", async () => {
    await enrol();
    for (let count = 0; count < 25; count += 1) {
      const user = { id: userId, sessionEpoch: 0 };
      nowMs += 1;
      await beginPasskeyCeremony(database.sql, deps, {
        purpose: "approval",
        boundTo: Buffer.alloc(32, count),
        user,
      });
    }
    expect(await challenges()).toBe(20);
    await begin("step_up");
    await begin("step_up");
    expect(await database.ownerSql`select from passkey_challenges where purpose = 'step_up'`).toHaveLength(1);
  });
});

describe("the list", () => {
  test("a passkey gets another name, its owner's only", async () => {
    const { id: passkeyId } = await enrol();
    expect(await renamePasskey(deps, { userId, passkeyId, name: "Key ring" })).toMatchObject({
      name: "Key ring",
    });
    const stranger = (await ben()).id;
    expect(await codeOf(renamePasskey(deps, { userId: stranger, passkeyId, name: "x" }))).toBe("not_found");
  });

  test("a removal ends the other sessions and is recorded; a stranger's, a repeated and a late one are refused", async () => {
    const { id: passkeyId } = await enrol();
    const remove = (who: Owner) => codeOf(deletePasskey(deps, { owner: who, passkeyId }, context()));
    expect(await remove(ownerOf((await ben()).id))).toBe("not_found");
    await forget();
    expect(await remove({ ...owner, authTime: new Date(nowMs - 300_001) })).toBe("step_up_required");
    expect(await remove(owner)).toBe("done");
    expect(deps.tokenService.revokeUserSessions.mock.lastCall?.[0]).toMatchObject({
      userId,
      exceptSessionId: owner.sessionId,
      reason: "passkey_removed",
    });
    expect(await mails()).toEqual(["passkey-removed"]);
    expect(await events()).toEqual(["passkey_removed"]);
    expect(await remove(owner)).toBe("not_found");
    expect(await codeOf(logIn())).toBe("passkey_invalid");
  });

  test("the last way to log in stays", async () => {
    const { id: passkeyId } = await enrol();
    const remove = () => codeOf(deletePasskey(deps, { owner, passkeyId }, context()));
    await database.ownerSql`update users set password_hash = null where id = ${userId}`;
    expect(await remove()).toBe("last_factor");
    await enrol(new TestAuthenticator());
    expect(await remove()).toBe("done");
  });
});

describe("a user with a second factor", () => {
  beforeEach(async () => {
    await enrol();
    await database.ownerSql`
      insert into totp_credentials (user_id, secret_encrypted, key_id, created_at, confirmed_at)
      values (${userId}, ${Buffer.alloc(48)}, '0123456789abcdef', ${deps.now()}, ${deps.now()})`;
  });
  const demand = { code: "step_up_required", details: { acr: 2, maxAgeSeconds: 300 } };

  test("neither adds nor removes a passkey in a session of one factor, however fresh it is", async () => {
    const [passkey] = await listPasskeys(deps.sql, userId);
    const low = { ...ownerOf(userId), acr: 1 } as const;
    await expect(beginPasskeyRegistration(deps, low)).rejects.toMatchObject(demand);
    const removal = { owner: low, passkeyId: passkey?.id ?? "" };
    await expect(deletePasskey(deps, removal, context())).rejects.toMatchObject(demand);
    expect(await listPasskeys(deps.sql, userId)).toHaveLength(1);
  });

  test("counts as one factor for a gateway that does not say the level", async () => {
    const rpc = createIdentityRpc(deps);
    const begin = (acr: string) =>
      rpc.beginPasskeyRegistration({ owner: { ...ownerOf(userId), acr } }, context());
    for (const acr of ["", "urn:gatehouse:acr:9"]) await expect(begin(acr)).rejects.toMatchObject(demand);
    expect(await begin("urn:gatehouse:acr:2")).toHaveProperty("optionsJson");
  });

  test.each([2, 3] as const)("does at level %i, within five minutes", async (acr) => {
    const high = { ...ownerOf(userId), acr };
    const old = { ...high, authTime: new Date(nowMs - 300_001) };
    await expect(beginPasskeyRegistration(deps, old)).rejects.toMatchObject(demand);
    const stale = { ...high, authTime: new Date(nowMs - 300_000) };
    expect(await beginPasskeyRegistration(deps, stale)).toHaveProperty("challenge");
  });
});
