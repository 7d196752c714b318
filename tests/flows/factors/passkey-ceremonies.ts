import { beforeAll, describe, expect, test } from "vitest";
import {
  type Ceremony,
  ED,
  extensionOf,
  TestAuthenticator,
  UP,
  UV,
} from "#identity-service/passkeys/authenticator.fixture.ts";
import type { Assertion } from "#identity-service/passkeys/verify-assertion.ts";
import type { Attestation } from "#identity-service/passkeys/verify-attestation.ts";
import { databaseOfSystem } from "../../support/database/system-database.ts";
import { addRoutes } from "../../support/house/routes.ts";
import { type Answer, type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import type { System } from "../../support/system/system.ts";

interface Options {
  challenge: string;
}
interface Member {
  email: string;
  password: string;
  token: string;
  device: TestAuthenticator;
  recoveryCodes: string[];
}
/** An answer to the options, and what it is sent with. */
interface Begun {
  options: Options;
  send: (assertion: Assertion) => Promise<Answer>;
}

const PAYMENT = { amount: 12_500, currency: "EUR", payee: "DE89" };

let system: System;
let api: ApiClient;
let ada: Member;
let ben: Member;

beforeAll(async () => {
  system = oneSystem();
  api = apiClient(system.url);
  const route = `
  - prefix: /transfers
    upstream: http://127.0.0.1:9
    methods:
      POST: { roles: [USER], action: pay.create, approval: { fields: [/amount, /currency, /payee] } }
`;
  await addRoutes(system, route);
  ada = await member();
  ben = await member();
});

const party = () => ({ rpId: "localhost", origin: `http://localhost:${system.ports.GATEWAY_PORT}` });
const newDevice = () => new TestAuthenticator("ES256", party());

async function provenUser() {
  const user = await api.newUser();
  await using database = await databaseOfSystem(system, "identity");
  await database.sql`
    update users set email_verified = true, credentials_proven_email = email, credentials_proven_at = created_at
    where id = ${user.user.id}`;
  return user;
}

async function member(): Promise<Member> {
  const { email, password, accessToken: token } = await provenUser();
  const device = newDevice();
  const { options, send } = await registration(token);
  const added = await send(device.create(options));
  expect(added.status).toBe(201);
  return { email, password, token, device, recoveryCodes: added.body.data.recoveryCodes };
}

const assertionJson = ({ credentialId: id, clientDataJson: clientDataJSON, ...response }: Assertion) => ({
  ...{ id, rawId: id, type: "public-key", clientExtensionResults: {} },
  response: { clientDataJSON, ...response },
});
const attestationJson = ({ credentialId: id, clientDataJson: clientDataJSON, ...response }: Attestation) => ({
  ...{ id, rawId: id, type: "public-key", clientExtensionResults: {} },
  response: { clientDataJSON, ...response },
});

/** Raises a session to level 2. @returns its new token. */
async function raised(token: string, code: string): Promise<string> {
  const { stepUpToken } = (await api.post("/auth/step-up", { acr: 2 }, { token })).body.data;
  const proven = await api.post("/auth/step-up/verify", { stepUpToken, code }, { token });
  expect(proven.status).toBe(200);
  return proven.body.data.accessToken;
}

async function registration(token: string) {
  const options = await api.post("/auth/passkeys/options", undefined, { token });
  expect(options.status).toBe(200);
  return {
    options: options.body.data as Options & { user: { id: string } },
    send: (attestation: Attestation, session = token) => {
      const body = { response: attestationJson(attestation), name: "Key" };
      return api.post("/auth/passkeys", body, { token: session });
    },
  };
}

/** Each has its own challenge for Ada, except the login's, which is for anybody. */
const PURPOSES: Record<string, () => Promise<Begun>> = {
  login: async () => {
    const begun = await api.post("/auth/passkeys/login/options", {});
    const { challengeToken, options } = begun.body.data;
    const send = (assertion: Assertion) =>
      api.post("/auth/passkeys/login", { challengeToken, response: assertionJson(assertion) });
    return { options, send };
  },
  "second factor": async () => {
    const begun = await api.post("/auth/login", { email: ada.email, password: ada.password });
    expect(begun.body.data.methods).toEqual(["passkey", "recovery_code"]);
    const { tempToken, passkey: options } = begun.body.data;
    const send = (assertion: Assertion) =>
      api.post("/auth/mfa/verify", { tempToken, passkey: assertionJson(assertion) });
    return { options, send };
  },
  "step-up": async () => {
    const { token } = ada;
    const begun = await api.post("/auth/step-up", { acr: 3 }, { token });
    const { stepUpToken, passkey: options } = begun.body.data;
    const send = (assertion: Assertion) =>
      api.post("/auth/step-up/verify", { stepUpToken, passkey: assertionJson(assertion) }, { token });
    return { options, send };
  },
  approval: async () => {
    const asked = await api.post("/transfers", PAYMENT, { token: ada.token });
    const { token, passkey: options } = asked.body.error.details.approval;
    const send = (assertion: Assertion) =>
      api.post("/auth/approvals/verify", { token, passkey: assertionJson(assertion) }, { token: ada.token });
    return { options, send };
  },
};
const NAMES = Object.keys(PURPOSES);
const begin = (purpose: string) => (PURPOSES[purpose] as () => Promise<Begun>)();

/** The signature counter grows with each answer. */
function sign(options: Options, changes: Partial<Ceremony> = {}): Assertion {
  ada.device.counter += 1;
  return ada.device.get(options, changes);
}

const FAULTS: Record<string, (purpose: string) => Promise<Answer>> = {
  "another origin": (purpose) => wrong(purpose, { origin: "http://localhost.evil.example" }),
  "another port": (purpose) => wrong(purpose, { origin: "http://localhost:1" }),
  "another RP id": (purpose) => wrong(purpose, { rpId: "evil.example" }),
  "no user verification": (purpose) => wrong(purpose, { flags: UP }),
  "no user presence": (purpose) => wrong(purpose, { flags: UV }),
  "a frame of another site": (purpose) => wrong(purpose, { crossOrigin: true }),
  "a page in another site's frame": (purpose) => wrong(purpose, { topOrigin: "https://evil.example" }),
  "another type of ceremony": (purpose) => wrong(purpose, { type: "webauthn.create" }),
  "another challenge": (purpose) => wrong(purpose, { challenge: "A".repeat(43) }),
  "another key's signature": (purpose) => wrong(purpose, { signedWith: newDevice().privateKey }),
  "a counter that went back": async (purpose) => {
    const first = await begin(purpose);
    expect((await first.send(sign(first.options))).status).toBe(200);
    const { options, send } = await begin(purpose);
    return send(ada.device.get(options, { counter: ada.device.counter - 1 }));
  },
  "a replay": async (purpose) => {
    const first = await begin(purpose);
    const assertion = sign(first.options);
    expect((await first.send(assertion)).status).toBe(200);
    return (await begin(purpose)).send(assertion);
  },
  "another user's credential": async (purpose) => {
    const { options, send } = await begin(purpose);
    return send(ben.device.get(options, { userHandle: ada.device.userHandle }));
  },
  "a credential that nobody has": async (purpose) => {
    const { options, send } = await begin(purpose);
    const nobody = newDevice();
    nobody.userHandle = ada.device.userHandle;
    return send(nobody.get(options));
  },
  "a challenge that has expired": async (purpose) => {
    const { options, send } = await begin(purpose);
    await using database = await databaseOfSystem(system, "identity");
    await database.sql`
      update passkey_challenges set created_at = now() - interval '301 s', expires_at = now() - interval '1 s'`;
    return send(sign(options));
  },
  ...Object.fromEntries(
    NAMES.map((other) => [
      `the challenge of another: ${other}`,
      async (purpose: string) => {
        const { options } = await begin(other);
        return (await begin(purpose)).send(sign(options));
      },
    ]),
  ),
};

async function wrong(purpose: string, changes: Partial<Ceremony>): Promise<Answer> {
  const { options, send } = await begin(purpose);
  return send(sign(options, changes));
}

/** What a client can see of it. */
function visible({ status, body }: Answer) {
  return { status, message: body.message, code: body.error?.code, details: body.error?.details };
}
const REFUSED = { status: 401, code: "passkey_invalid", details: undefined, message: expect.any(String) };

describe.each(NAMES)("%s", (purpose) => {
  test("whatever is wrong is refused alike, and the next right answer is accepted", async () => {
    const messages = new Set<string>();
    for (const [fault, attempt] of Object.entries(FAULTS)) {
      const answer = visible(await attempt(purpose));
      // Of the same purpose, the challenge belongs to another token.
      expect(answer, fault).toEqual(REFUSED);
      messages.add(answer.message);
    }
    expect(messages.size).toBe(1);
    const { options, send } = await begin(purpose);
    expect((await send(sign(options))).status).toBe(200);
  });
});

test("a refused answer uses its challenge up", async () => {
  for (const purpose of NAMES) {
    const { options, send } = await begin(purpose);
    expect((await send(sign(options, { flags: UP }))).status, purpose).toBe(401);
    expect(visible(await send(sign(options))), purpose).toEqual(REFUSED);
  }
});

test("a registration that is wrong in one thing is refused alike", async () => {
  const { accessToken: token } = await provenUser();
  const other = await provenUser();
  const CHANGES: Record<string, Partial<Ceremony>> = {
    "another origin": { origin: "http://localhost.evil.example" },
    "another RP id": { rpId: "evil.example" },
    "no user verification": { flags: UP },
    "a frame of another site": { crossOrigin: true },
    "another type of ceremony": { type: "webauthn.get" },
    "another challenge": { challenge: "A".repeat(43) },
    "a format with certificates": { fmt: "fido-u2f" },
    "a self attestation of another key": { fmt: "packed", signedWith: newDevice().privateKey },
    "an oversized attestation": { flags: UP | UV | ED, padding: extensionOf(5_000) },
    "another credential id beside it": { credentialId: "A".repeat(43) },
  };
  for (const [fault, changes] of Object.entries(CHANGES)) {
    const { options, send } = await registration(token);
    expect(visible(await send(newDevice().create(options, changes))), fault).toEqual(REFUSED);
  }
  const ES384 = await registration(token);
  const unknown = new TestAuthenticator("ES384", party());
  expect(visible(await ES384.send(unknown.create(ES384.options))), "algorithm").toEqual(REFUSED);
  // Ben has it: the answer does not show it.
  const taken = await registration(token);
  expect(visible(await taken.send(ben.device.create(taken.options))), "taken").toEqual(REFUSED);
  const begun = await registration(token);
  const session = await registration(other.accessToken);
  expect(visible(await session.send(newDevice().create(begun.options))), "session").toEqual(REFUSED);
  const { options } = await begin("login");
  const login = { ...begun.options, ...options };
  expect(visible(await begun.send(newDevice().create(login))), "purpose").toEqual(REFUSED);
  const good = newDevice().create(begun.options);
  const added = await begun.send(good);
  expect(added.status).toBe(201);
  expect(visible(await begun.send(good)).code, "now with a second factor").toBe("step_up_required");
  const owner = await raised(token, added.body.data.recoveryCodes[0]);
  expect(visible(await begun.send(good, owner)), "replay").toEqual(REFUSED);
});

test("what a passkey approved names it to the upstream's audit, and another amount stays unapproved", async () => {
  const asked = await api.post("/transfers", PAYMENT, { token: ada.token });
  const { token, passkey, methods } = asked.body.error.details.approval;
  expect(methods).toEqual(["passkey", "recovery_code"]);
  const given = await api.post(
    "/auth/approvals/verify",
    { token, passkey: assertionJson(sign(passkey)) },
    { token: ada.token },
  );
  expect([given.status, given.body.data?.method]).toEqual([200, "passkey"]);
  const headers = { "gatehouse-approval": token };
  const other = await api.post("/transfers", { ...PAYMENT, amount: 1 }, { token: ada.token, headers });
  expect([other.status, other.body.error.code]).toEqual([403, "approval_mismatch"]);
  // Nothing listens there: it passed.
  const paid = await api.post("/transfers", PAYMENT, { token: ada.token, headers });
  expect([paid.status, paid.body.error.code]).toEqual([502, "upstream_unavailable"]);
});
