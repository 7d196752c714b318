import type { Browser, CDPSession, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CHROMIUM, launchChromium } from "../../support/browser/chromium.ts";
import { addRoutes } from "../../support/house/routes.ts";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { expectOneUse } from "../../support/people/expect-one-use.ts";
import { linkIn, mailAbout } from "../../support/people/mailbox.ts";
import { proveAddress } from "../../support/people/verified-user.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import type { System } from "../../support/system/system.ts";

let system: System;
let api: ApiClient;
let browser: Browser | undefined;
let page: Page;
let devtools: CDPSession;

beforeAll(async () => {
  if (CHROMIUM === undefined) return;
  system = oneSystem();
  api = apiClient(system.url);
  await addRoute();
  browser = await launchChromium();
  page = await browser.newPage();
  // A document of the gateway's own origin, in which the test stands for the application's script.
  await page.goto(`http://localhost:${system.ports.GATEWAY_PORT}/auth/undo-access-change?token=x`);
  devtools = await page.context().newCDPSession(page);
  await devtools.send("WebAuthn.enable");
});
afterAll(() => browser?.close());

/** Nothing listens at its upstream: 502 says that a call passed. */
async function addRoute(): Promise<void> {
  const route = `
  - prefix: /pay
    upstream: http://127.0.0.1:9
    methods:
      POST: { roles: [USER], action: pay.create, approval: { fields: [/amount, /payee], acr: 3 } }
      PUT: { roles: [USER], action: pay.replace, assurance: { acr: 3, maxAgeSeconds: 300 } }
`;
  await addRoutes(system, route);
}

/** As platforms have one: with user verification and discoverable credentials. */
async function addAuthenticator(): Promise<string> {
  const options = {
    protocol: "ctap2",
    transport: "internal",
    hasResidentKey: true,
    hasUserVerification: true,
    isUserVerified: true,
    automaticPresenceSimulation: true,
  } as const;
  const { authenticatorId } = await devtools.send("WebAuthn.addVirtualAuthenticator", { options });
  return authenticatorId;
}

/** What an application's script does with the options. */
const inPage = (call: "create" | "get", parse: string, options: unknown): Promise<unknown> =>
  page.evaluate(`
    navigator.credentials.${call}({ publicKey: PublicKeyCredential.${parse}(${JSON.stringify(options)}) })
      .then((credential) => credential.toJSON())
  `);
const create = (options: unknown) => inPage("create", "parseCreationOptionsFromJSON", options);
const get = (options: unknown) => inPage("get", "parseRequestOptionsFromJSON", options);

async function newProvenUser() {
  const user = await api.newUser();
  await proveAddress(system, api, user);
  return user;
}
async function addPasskey(token: string) {
  const options = await api.post("/auth/passkeys/options", undefined, { token });
  expect(options.status).toBe(200);
  const response = await create(options.body.data);
  return api.post("/auth/passkeys", { response, name: "This browser" }, { token });
}
async function logIn() {
  const begun = await api.post("/auth/passkeys/login/options", {});
  expect(begun.status).toBe(200);
  const { challengeToken, options } = begun.body.data;
  return api.post("/auth/passkeys/login", { challengeToken, response: await get(options) });
}
const claimsOf = (accessToken: string) =>
  JSON.parse(Buffer.from(accessToken.split(".")[1] ?? "", "base64url").toString());

test.skipIf(CHROMIUM === undefined)(
  "Chromium makes a passkey and logs in with it, at the highest level, and it is gone when its owner removes it",
  async () => {
    const authenticatorId = await addAuthenticator();
    try {
      const user = await newProvenUser();
      const added = await addPasskey(user.accessToken);
      expect(added).toMatchObject({
        status: 201,
        body: { data: { passkey: { name: "This browser", lastUsedAt: null, transports: ["internal"] } } },
      });
      await mailAbout(system, user.email, "A passkey was added to your account");

      const entered = await logIn();
      expect(entered).toMatchObject({ status: 200, body: { data: { user: { id: user.user.id } } } });
      const token = entered.body.data.accessToken as string;
      expect(claimsOf(token)).toMatchObject({
        acr: "urn:gatehouse:acr:3",
        amr: expect.arrayContaining(["user", "mfa"]),
      });
      const listed = await api.get("/auth/passkeys", { token });
      const [{ id, lastUsedAt }] = listed.body.data.passkeys;
      expect(lastUsedAt).not.toBeNull();
      const renamed = await api.call("PATCH", `/auth/passkeys/${id}`, { token, body: { name: "Laptop" } });
      expect(renamed.body.data.passkey.name).toBe("Laptop");

      expect(await api.call("DELETE", `/auth/passkeys/${id}`, { token })).toMatchObject({ status: 200 });
      // The session that had another login ends with it.
      expect((await api.get("/auth/me", { token: user.accessToken })).status).toBe(401);
      expect(await logIn()).toMatchObject({ status: 401, body: { error: { code: "passkey_invalid" } } });
    } finally {
      await devtools.send("WebAuthn.removeVirtualAuthenticator", { authenticatorId });
    }
  },
);

test.skipIf(CHROMIUM === undefined)(
  "an answer of Chromium works once, and the link in the mail removes the passkey",
  async () => {
    const authenticatorId = await addAuthenticator();
    try {
      const user = await newProvenUser();
      expect((await addPasskey(user.accessToken)).status).toBe(201);
      const { challengeToken, options } = (await api.post("/auth/passkeys/login/options", {})).body.data;
      const response = await get(options);
      const impatient = apiClient(system.url, { isPatient: false });
      const answers = await Promise.all(
        Array.from({ length: 20 }, () =>
          impatient.post("/auth/passkeys/login", { challengeToken, response }),
        ),
      );
      expectOneUse(answers, 200);

      const link = linkIn(await mailAbout(system, user.email, "A passkey was added to your account"));
      const undone = await api.post("/auth/undo-access-change", { token: link.searchParams.get("token") });
      expect(undone.status).toBe(200);
      expect((await logIn()).status).toBe(401);
    } finally {
      await devtools.send("WebAuthn.removeVirtualAuthenticator", { authenticatorId });
    }
  },
);

test.skipIf(CHROMIUM === undefined)(
  "Chromium's passkey is a second factor, steps a session up, and approves a payment",
  async () => {
    const authenticatorId = await addAuthenticator();
    try {
      const user = await newProvenUser();
      const added = await addPasskey(user.accessToken);
      expect(added.body.data.recoveryCodes).toHaveLength(10);

      const { email, password } = user;
      const asked = await api.post("/auth/login", { email, password });
      const { tempToken, methods, passkey } = asked.body.data;
      expect(methods).toEqual(["passkey", "recovery_code"]);
      const entered = await api.post("/auth/mfa/verify", { tempToken, passkey: await get(passkey) });
      expect(entered.status).toBe(200);
      expect(claimsOf(entered.body.data.accessToken)).toMatchObject({
        acr: "urn:gatehouse:acr:3",
        amr: expect.arrayContaining(["pwd", "user", "mfa"]),
      });

      // By a recovery code, the session has level 2.
      const second = await api.post("/auth/login", { email, password });
      const code = added.body.data.recoveryCodes[0];
      const low = await api.post("/auth/mfa/verify", { tempToken: second.body.data.tempToken, code });
      const token = low.body.data.accessToken as string;
      const refused = await api.call("PUT", "/pay", { token, body: {} });
      expect(refused).toMatchObject({
        status: 401,
        body: { error: { code: "step_up_required", details: { acr: 3, methods: ["passkey"] } } },
      });
      const begun = await api.post("/auth/step-up", { acr: 3 }, { token });
      const { stepUpToken, passkey: options } = begun.body.data;
      const proof = { stepUpToken, passkey: await get(options) };
      const raised = await api.post("/auth/step-up/verify", proof, { token });
      expect(raised).toMatchObject({ status: 200, body: { data: { acr: 3 } } });
      const higher = raised.body.data.accessToken as string;
      expect((await api.call("PUT", "/pay", { token: higher, body: {} })).status).toBe(502);

      const payment = { amount: 12_500, payee: "DE89" };
      const unapproved = await api.post("/pay", payment, { token: higher });
      const { approval } = unapproved.body.error.details;
      expect(approval).toMatchObject({
        methods: ["passkey"],
        details: { "/amount": 12_500, "/payee": "DE89" },
      });
      const given = await api.post(
        "/auth/approvals/verify",
        { token: approval.token, passkey: await get(approval.passkey) },
        { token: higher },
      );
      expect(given).toMatchObject({ status: 200, body: { data: { method: "passkey" } } });
      const headers = { "gatehouse-approval": approval.token as string };
      const changed = await api.post("/pay", { ...payment, amount: 99_999 }, { token: higher, headers });
      expect(changed.body.error.code).toBe("approval_mismatch");
      expect((await api.post("/pay", payment, { token: higher, headers })).status).toBe(502);
    } finally {
      await devtools.send("WebAuthn.removeVirtualAuthenticator", { authenticatorId });
    }
  },
);
