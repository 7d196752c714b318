import { type Browser, type CDPSession, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ApiClient, apiClient } from "../support/api-client.ts";
import { CHROMIUM } from "../support/chromium.ts";
import { expectOneUse } from "../support/expect-one-use.ts";
import { linkIn, mailAbout } from "../support/mailbox.ts";
import { type System, startSystem } from "../support/system.ts";
import { proveAddress } from "../support/verified-user.ts";

let system: System;
let api: ApiClient;
let browser: Browser | undefined;
let page: Page;
let devtools: CDPSession;

beforeAll(async () => {
  if (CHROMIUM === undefined) return;
  system = await startSystem();
  api = apiClient(system.url);
  browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  page = await browser.newPage();
  // A document of the gateway's own origin, in which the test stands for the application's script.
  await page.goto(`http://localhost:${system.ports.GATEWAY_PORT}/auth/undo-access-change?token=x`);
  devtools = await page.context().newCDPSession(page);
  await devtools.send("WebAuthn.enable");
});
afterAll(async () => {
  await browser?.close();
  await system?.remove();
});

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
