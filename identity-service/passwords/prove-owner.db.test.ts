import { afterAll, beforeAll, expect, test } from "vitest";
import { newCallContext } from "#kit/rpc/call-context.ts";
import type { RpcContext } from "#kit/rpc/rpc-admission.ts";
import { DomainError } from "#kit/values/errors.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { type AssuranceLevel, acrOf } from "#token-client/assurance.ts";
import { createAccountRpc } from "../account-rpc.ts";
import { createMfaRpc } from "../mfa-rpc.ts";
import { createOAuthRpc } from "../oauth-rpc.ts";
import { createPasskeyRpc } from "../passkey-rpc.ts";
import { ANNA, proveCredentials, startWithAnna, type TestDeps } from "../testing/test-deps.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
afterAll(() => database.drop());

const SESSION = "019a0000-0000-7000-8000-00000000000a";
const OTHER = "019a0000-0000-7000-8000-00000000000b";
const FROM = { clientIp: "192.0.2.1", userAgent: "test" };
const context = () =>
  ({ ...newCallContext({ budgetMs: 60_000 }), caller: "gateway" }) as unknown as RpcContext;

type Session = { acr: string; authTime: Date | undefined };

/** Each with the password, as whoever has phished it sends it. */
function changesOf(deps: TestDeps, userId: string, session: Session) {
  const who = { userId, sessionId: SESSION, ...session, ...FROM };
  const { password } = ANNA;
  const accounts = createAccountRpc(deps, () => ({}) as never);
  const mfa = createMfaRpc(deps);
  const passkeys = createPasskeyRpc(deps);
  const oauth = createOAuthRpc(deps);
  const attestation = {
    credentialId: "AAAAAAAAAAAAAAAAAAAAAA",
    clientDataJson: "e30",
    attestationObject: "AA",
    transports: [],
  };
  const linkTo = { ...who, password };
  const asked = {
    returnTo: "",
    codeChallenge: "",
    browserToken: "",
    isBrowserTokenSecure: true,
    isAfresh: false,
  };
  return {
    beginTotp: () => mfa.beginTotpEnrollment({ ...who, password }, context()),
    confirmTotp: () => mfa.confirmTotpEnrollment({ ...who, code: "000000" }, context()),
    disableTotp: () => mfa.disableTotp({ ...who, password, code: "000000" }, context()),
    renewRecoveryCodes: () => mfa.regenerateRecoveryCodes({ ...who, code: "000000" }, context()),
    beginPasskey: () => passkeys.beginPasskeyRegistration({ owner: who }, context()),
    addPasskey: () => passkeys.registerPasskey({ owner: who, name: "Phone", attestation }, context()),
    deletePasskey: () => passkeys.deletePasskey({ owner: who, passkeyId: OTHER }, context()),
    linkIdentity: () =>
      oauth.beginOAuthLogin({ provider: "demo", ...asked, linkTo, clientIp: "", deviceToken: "" }, context()),
    unlinkIdentity: () => oauth.unlinkIdentity({ owner: linkTo, provider: "none" }, context()),
    changeEmail: () => accounts.changeEmail({ ...who, password, newEmail: "new@example.com" }, context()),
    removeTrustedDevice: () => mfa.removeTrustedDevice({ ...who, trustedDeviceId: OTHER }, context()),
    changePassword: () =>
      accounts.changePassword({ ...who, currentPassword: password, newPassword: password }, context()),
    deleteAccount: () => accounts.deleteAccount({ ...who, password }, context()),
  };
}
type Change = keyof ReturnType<typeof changesOf>;

const BY_CODE: readonly Change[] = ["disableTotp", "renewRecoveryCodes"];
const ALWAYS_FRESH: readonly Change[] = ["beginPasskey", "deletePasskey"];

const FACTORS = {
  password: [],
  "password and TOTP": ["totp"],
  "password and passkey": ["passkey"],
  "passkey only": ["passkey", "no password"],
  "password, TOTP and passkey": ["totp", "passkey"],
  "provider only": ["no password"],
  "provider and TOTP": ["totp", "no password"],
} as const satisfies Record<string, readonly string[]>;

async function userWith(factors: readonly string[]): Promise<{ deps: TestDeps; userId: string }> {
  const { deps, userId } = await startWithAnna(database);
  deps.relyingParties = new Map([
    ["demo", { name: "demo", authorizationUrl: async () => new URL("https://provider.example/") }],
  ]) as never;
  const { ownerSql } = database;
  await proveCredentials(ownerSql, userId);
  if (factors.includes("totp")) {
    await ownerSql`
      insert into totp_credentials (user_id, secret_encrypted, key_id, created_at, confirmed_at)
      values (${userId}, ${Buffer.alloc(48)}, '0123456789abcdef', now(), now())`;
  }
  if (factors.includes("passkey")) await plantPasskey(userId);
  if (factors.includes("no password"))
    await ownerSql`update users set password_hash = null where id = ${userId}`;
  return { deps, userId };
}

async function plantPasskey(userId: string): Promise<void> {
  await database.ownerSql`
    insert into passkeys (id, user_id, credential_id, public_key, sign_count, name, transports, is_backup_eligible,
      is_backed_up, created_at)
    values (${SESSION}, ${userId}, ${Buffer.alloc(16, 1)}, ${Buffer.alloc(32)}, 0, 'Phone', '{}', true, true, now())`;
}

const isRefused = (work: () => unknown) =>
  Promise.resolve()
    .then(work)
    .then(
      () => false,
      (error: unknown) => error instanceof DomainError && error.code === "step_up_required",
    );

const LEVELS: readonly AssuranceLevel[] = [1, 2, 3];
const AGES_S = [0, 300, 301, 86_400];

test.each(Object.entries(FACTORS))(
  "with %s, each change of how one logs in asks the account's own level, within five minutes",
  async (_name, factors) => {
    const hasFactor = factors.some((factor) => factor === "totp" || factor === "passkey");
    const answers: Record<string, boolean> = {};
    const expected: Record<string, boolean> = {};
    for (const acr of LEVELS) {
      for (const ageS of AGES_S) {
        const { deps, userId } = await userWith(factors);
        const session = { acr: acrOf(acr), authTime: new Date(deps.now().getTime() - ageS * 1_000) };
        const changes = changesOf(deps, userId, session);
        for (const change of Object.keys(changes) as Change[]) {
          const isFresh = ageS <= 300;
          const key = `${change} at level ${acr} after ${ageS} s`;
          answers[key] = await isRefused(changes[change]);
          if (BY_CODE.includes(change)) expected[key] = false;
          else expected[key] = hasFactor ? acr < 2 || !isFresh : ALWAYS_FRESH.includes(change) && !isFresh;
        }
      }
    }
    expect(answers).toEqual(expected);
  },
);

test("a session of which the gateway says nothing is one of level 1, long ago", async () => {
  const { deps, userId } = await userWith(["totp"]);
  const changes = changesOf(deps, userId, { acr: "", authTime: undefined });
  for (const change of (Object.keys(changes) as Change[]).filter((name) => !BY_CODE.includes(name)))
    expect([change, await isRefused(changes[change])]).toEqual([change, true]);
});

test("a refused change costs no guess of the password and changes nothing", async () => {
  const { deps, userId } = await userWith(["passkey"]);
  const session = { acr: acrOf(1), authTime: deps.now() };
  for (let round = 0; round < 7; round += 1) {
    const { changePassword } = changesOf(deps, userId, session);
    expect(await isRefused(changePassword)).toBe(true);
  }
  expect(deps.argon2.verify).not.toHaveBeenCalled();
  const before = { deps, owner: { acr: acrOf(2), authTime: deps.now() } };
  await changesOf(before.deps, userId, before.owner).beginTotp();
  expect(await database.ownerSql`select confirmed_at from totp_credentials`).toEqual([
    { confirmed_at: null },
  ]);
});

test("a factor that was added while the password was checked is asked for", async () => {
  const { deps, userId } = await userWith([]);
  const { verify } = deps.passwords;
  deps.passwords = {
    ...deps.passwords,
    verify: async (...args: Parameters<typeof verify>) => {
      await plantPasskey(userId);
      return verify(...args);
    },
  };
  const { beginTotp } = changesOf(deps, userId, { acr: acrOf(1), authTime: deps.now() });
  await expect(beginTotp()).rejects.toMatchObject({ code: "invalid_credentials" });
});
