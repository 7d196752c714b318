import { randomUUID } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { type DbscClient, dbscClient } from "../../support/people/dbsc-client.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { ADMIN, type System } from "../../support/system/system.ts";

const BOUND = "__Host-gatehouse-bound";

let system: System;
let api: ApiClient;

beforeAll(() => {
  system = oneSystem();
  api = apiClient(system.url);
});

async function boundBrowser(): Promise<DbscClient> {
  const browser = await dbscClient(api, system.url);
  const { path, challenge } = await browser.logIn(await api.newUser());
  const answer = await browser.register(path, challenge);
  expect(answer.status).toBe(200);
  return browser;
}

const codeOf = ({ status, body }: { status: number; body: { error?: { code: string } } }) => [
  status,
  body.error?.code,
];

test("a browser binds its session: each refresh needs a proof of the key, round after round", async () => {
  const browser = await dbscClient(api, system.url);
  const { path, challenge } = await browser.logIn(await api.newUser());
  expect(path).toBe("/auth/device-session");
  const registered = await browser.register(path, challenge);
  expect(registered.body).toEqual({
    session_identifier: expect.stringMatching(/^[0-9a-f-]{36}$/),
    refresh_url: "/auth/device-session",
    scope: {
      include_site: false,
      scope_specification: [
        { type: "exclude", domain: "*", path: "/" },
        { type: "include", domain: "*", path: "/auth/refresh" },
        { type: "include", domain: "*", path: "/v1/auth/refresh" },
      ],
    },
    credentials: [{ type: "cookie", name: BOUND, attributes: "Path=/; Secure; HttpOnly; SameSite=Strict" }],
    allowed_refresh_initiators: expect.arrayContaining(["localhost", "127.0.0.1"]),
  });
  expect(registered.headers.getSetCookie()).toEqual([
    expect.stringMatching(
      /^__Host-gatehouse-bound=\d+\.[\w-]+; Max-Age=120; Path=\/; HttpOnly; Secure; SameSite=Strict$/,
    ),
  ]);
  for (let round = 0; round < 3; round += 1) {
    expect((await browser.refresh()).status).toBe(200);
    // A second tab, within the life of the proof.
    expect((await browser.refreshAsPage()).status).toBe(200);
    browser.forgetProof();
  }
});

test("the refresh cookie alone, or with another session's proof, refreshes nothing and ends nothing", async () => {
  const browser = await boundBrowser();
  const other = await boundBrowser();
  browser.forgetProof();
  const refused = await browser.refreshAsPage();
  expect(codeOf(refused)).toEqual([401, "device_proof_missing"]);
  // The cookie stays for the browser itself.
  expect(refused.headers.getSetCookie()).toEqual([]);
  browser.jar.set(BOUND, other.jar.get(BOUND) ?? "");
  expect(codeOf(await browser.refreshAsPage())).toEqual([401, "device_proof_missing"]);
  browser.forgetProof();
  expect((await browser.refresh()).status).toBe(200);
});

test("a used challenge gives a new one; a proof of another key, another algorithm or none gives nothing", async () => {
  const browser = await boundBrowser();
  const stranger = await dbscClient(api, system.url);
  const { challenge, id } = await browser.askForChallenge();
  expect(id).toBe(browser.session.id);
  const proof = await browser.sign(challenge);
  const forged = await stranger.sign(challenge, { jwk: stranger.key.jwk });
  const unsigned = `${Buffer.from('{"alg":"none","typ":"dbsc+jwt"}').toString("base64url")}.${proof.split(".")[1]}.AA`;
  const ofOtherType = await browser.sign(challenge, { typ: "dpop+jwt" });
  for (const wrong of [forged, unsigned, ofOtherType]) {
    expect(codeOf(await browser.prove(wrong))).toEqual([401, "refresh_token_invalid"]);
  }
  expect((await browser.prove(proof)).status).toBe(200);
  const again = await browser.prove(proof);
  expect([again.status, again.headers.getSetCookie()]).toEqual([403, []]);
  expect(again.headers.get("secure-session-challenge")).not.toContain(challenge);
});

test("a session is bound once; who comes later is refused, and both are in the audit log", async () => {
  const browser = await dbscClient(api, system.url);
  const user = await api.newUser();
  const { path, challenge } = await browser.logIn(user);
  await browser.register(path, challenge);
  const thief = await dbscClient(api, system.url);
  expect(codeOf(await thief.register(path, challenge))).toEqual([409, "conflict"]);
  expect((await browser.refresh()).status).toBe(200);
  const { accessToken: token } = await api.logIn(ADMIN);
  await expect
    .poll(
      async () => {
        const { body } = await api.get(`/admin/audit?actor=${user.user.id}`, { token });
        const entries = body.data.entries as { action: string; outcome: string }[];
        return entries.flatMap(({ action, outcome }) =>
          action.startsWith("session.device") ? [`${action} ${outcome}`] : [],
        );
      },
      { timeout: 30_000 },
    )
    .toEqual(["session.device_refused failure", "session.device_bound success"]);
});

test("the end of a session ends what its browser keeps; unknown sessions have none", async () => {
  const browser = await boundBrowser();
  const { challenge } = await browser.askForChallenge();
  const { accessToken: token } = (await browser.refresh()).body.data;
  expect((await api.post("/auth/logout", {}, { token })).status).toBe(200);
  expect(codeOf(await browser.prove(await browser.sign(challenge)))).toEqual([404, "not_found"]);
  for (const id of [randomUUID(), "no-id"]) expect((await browser.prove("", id)).status).toBe(404);
  expect((await browser.refresh()).status).toBe(401);
});

test("other clients and other browsers see nothing of it", async () => {
  const user = await api.newUser();
  const { email, password } = user;
  const plain = await api.post("/auth/login", { email, password });
  expect(plain.headers.get("secure-session-registration")).toBeNull();
  const { refreshToken } = plain.body.data;
  const refreshed = await api.post("/auth/refresh", { refreshToken });
  expect([refreshed.status, refreshed.headers.get("secure-session-registration")]).toEqual([200, null]);
  const browser = await dbscClient(api, system.url);
  await browser.logIn(user);
  expect((await browser.refreshAsPage()).status).toBe(200);
});
