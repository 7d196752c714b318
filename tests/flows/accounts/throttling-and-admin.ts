import { randomUUID } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { type Answer, type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { linkIn, mailAbout } from "../../support/people/mailbox.ts";
import { proveAddress } from "../../support/people/verified-user.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { ADMIN, type System } from "../../support/system/system.ts";

let system: System;
let api: ApiClient;
let admin: string;

beforeAll(async () => {
  system = oneSystem();
  api = apiClient(system.url);
  ({ accessToken: admin } = await api.logIn(ADMIN));
});

const logIn = (user: { email: string }, password: string, headers: Record<string, string> = {}) =>
  api.post("/auth/login", { email: user.email, password }, { headers });

/** What distinguishes one refusal from another, if anything does. */
function visible({ status, headers, body }: Awaited<ReturnType<typeof logIn>>): string {
  const { requestId: _requestId, ...error } = body.error;
  // It counts down while the answers are compared.
  if (error.details !== undefined) error.details = Object.keys(error.details);
  const names = [...headers.keys()].filter((name) => name !== "date" && name !== "x-request-id");
  return JSON.stringify([status, { ...body, error }, names, headers.get("content-length")]);
}

test("five wrong passwords lock a login, and only this caller's own tries show; the device that logged in before still gets in", async () => {
  const user = await api.newUser();
  const first = await logIn(user, user.password);
  const cookie = first.headers.get("set-cookie")?.split(";")[0] ?? "";
  expect(cookie).toMatch(/^gatehouse_device=2\./);

  const tries = async (email: string, last: string) => {
    const answers = [];
    for (const password of [...Array<string>(6).fill("wrong"), last])
      answers.push(await logIn({ email }, password));
    return answers;
  };
  const unknown = await tries(`nobody-${randomUUID()}@example.com`, "wrong");
  const locked = await tries(user.email, user.password);
  expect(locked.map(visible)).toEqual(unknown.map(visible));
  expect(locked.map(({ status }) => status)).toEqual(Array(7).fill(401));
  expect(locked[3]?.body.error.details).toBeUndefined();
  expect(locked.at(-1)?.body).toMatchObject({
    message: "Too many tries for this address lately. Wait a few minutes, or set a new password.",
    error: { code: "invalid_credentials", details: { retryAfter: expect.any(Number) } },
  });

  expect((await logIn(user, user.password, { cookie })).status).toBe(200);
  expect((await logIn(user, user.password)).status).toBe(200);
});

test("while strangers guess, a client without cookies still logs in by its device, and the owner is mailed a link", async () => {
  const user = await api.newUser();
  await proveAddress(system, api, user);
  const deviceOf = ({ headers }: Answer) => headers.get("gatehouse-device") ?? "";
  const first = await logIn(user, user.password, { "gatehouse-device": "new" });
  expect([first.status, first.headers.get("set-cookie")]).toEqual([200, null]);
  const device = deviceOf(first);
  expect(device).toMatch(/^2\./);

  for (let round = 0; round < 6; round += 1) expect((await logIn(user, "wrong")).status).toBe(401);
  const [stranger, pretender] = [{}, { "gatehouse-device": `${device}x` }];
  for (const headers of [stranger, pretender])
    expect((await logIn(user, user.password, headers)).status).toBe(401);
  const second = await logIn(user, user.password, { "gatehouse-device": device });
  expect([second.status, deviceOf(second)]).toEqual([200, expect.stringMatching(/^2\./)]);

  const link = linkIn(await mailAbout(system, user.email, "Someone is trying to guess your password"));
  const change = { token: link.searchParams.get("token"), newPassword: "an entirely new password" };
  expect((await api.post("/auth/reset-password", change)).status).toBe(200);
  expect((await logIn(user, user.password, { "gatehouse-device": device })).status).toBe(401);
  expect((await logIn(user, change.newPassword)).status).toBe(200);
});

test("administrators find, promote, disable and delete users; each ends the user's access at once", async () => {
  const user = await api.newUser();
  const path = `/admin/users/${user.user.id}`;
  const asAdmin = { token: admin };
  const found = await api.get(`/admin/users?query=${encodeURIComponent(user.email)}`, asAdmin);
  expect(found.body.data).toMatchObject({
    users: [{ id: user.user.id, role: "USER", status: "active" }],
    nextCursor: null,
  });
  expect((await api.get("/admin/users", { token: user.accessToken })).status).toBe(403);

  const patch = (body: unknown) => api.call("PATCH", path, { ...asAdmin, body });
  expect((await patch({ role: "AUDITOR" })).body.data.user).toMatchObject({ role: "AUDITOR" });
  expect((await api.get("/auth/me", { token: user.accessToken })).status).toBe(401);
  const auditor = await api.logIn(user);
  expect((await api.get("/admin/audit?limit=1", { token: auditor.accessToken })).status).toBe(200);

  expect((await patch({ status: "disabled" })).status).toBe(200);
  expect((await api.get("/auth/me", { token: auditor.accessToken })).status).toBe(401);
  expect((await api.post("/auth/refresh", { refreshToken: auditor.refreshToken })).status).toBe(401);
  expect((await logIn(user, user.password)).status).toBe(401);

  expect((await patch({ status: "active" })).status).toBe(200);
  const again = await api.logIn(user);
  expect((await api.post(`${path}/sessions/revoke`, undefined, asAdmin)).body.data).toEqual({ ended: 1 });
  expect((await api.get("/auth/me", { token: again.accessToken })).status).toBe(401);

  expect((await api.call("DELETE", path, asAdmin)).status).toBe(200);
  expect((await api.get(path, asAdmin)).status).toBe(404);
  expect((await logIn(user, user.password)).status).toBe(401);
});

test("a login racing a disable leaves no access, ten times", async () => {
  for (let round = 0; round < 10; round += 1) {
    const user = await api.newUser();
    const path = `/admin/users/${user.user.id}`;
    const [login, disabled] = await Promise.all([
      logIn(user, user.password),
      new Promise((resolve) => setTimeout(resolve, round * 4)).then(() =>
        api.call("PATCH", path, { token: admin, body: { status: "disabled" } }),
      ),
    ]);
    expect(disabled.status).toBe(200);
    if (login.status !== 200) continue;
    const token = login.body.data.accessToken;
    expect((await api.get("/auth/me", { token })).status).toBe(401);
    const { refreshToken } = login.body.data;
    expect((await api.post("/auth/refresh", { refreshToken })).status).toBe(401);
  }
});

test("two administrators who demote each other at once: one stays", async () => {
  const other = await api.newUser();
  const promoted = await api.call("PATCH", `/admin/users/${other.user.id}`, {
    token: admin,
    body: { role: "ADMIN" },
  });
  expect(promoted.status).toBe(200);
  const { accessToken, user } = await api.logIn(ADMIN);
  const demote = (id: string, token: string) =>
    api.call("PATCH", `/admin/users/${id}`, { token, body: { role: "USER" } });
  const otherToken = (await api.logIn(other)).accessToken;
  const answers = await Promise.all([demote(other.user.id, accessToken), demote(user.id, otherToken)]);
  const won = answers.findIndex(({ status }) => status === 200);
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
  // The loser was refused as the last one, or its session had ended before.
  expect([401, 409]).toContain(answers[1 - won]?.status);
  const winner = won === 0 ? accessToken : otherToken;
  const admins = await api.get("/admin/users?role=ADMIN", { token: winner });
  expect(admins.body.data.users).toHaveLength(1);
  const last = await demote(admins.body.data.users[0].id, winner);
  // Nobody acts on themselves.
  expect([last.status, last.body.error.code]).toEqual([403, "forbidden"]);
  if (won === 0) return;
  // For the flows after this one.
  const again = { token: winner, body: { role: "ADMIN" } };
  expect((await api.call("PATCH", `/admin/users/${user.id}`, again)).status).toBe(200);
});

test("one network that asks for mails without end gets 429 with a time, and registers all the same", async () => {
  const path = "/auth/forgot-password";
  const answers = await Promise.all(
    Array.from({ length: 100 }, (_, index) => api.post(path, { email: `nobody-${index}@example.com` })),
  );
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(60);
  const refusal = answers.find(({ status }) => status === 429);
  expect(refusal?.body.error.code).toBe("too_many_requests");
  expect(refusal?.headers.get("ratelimit-limit")).toBe("60");
  expect(Number(refusal?.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
  await api.newUser();
});

test("20 right logins of one account at once: none learns that the password is wrong", async () => {
  const user = await api.newUser();
  const answers = await Promise.all(Array.from({ length: 20 }, () => logIn(user, user.password)));
  expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(5);
  for (const { status } of answers) expect([200, 503]).toContain(status);
});

test("one network that guesses on many accounts gets 429 with a time, and no account is reported", async () => {
  const statuses: number[] = [];
  let refusal: Awaited<ReturnType<typeof logIn>> | undefined;
  for (let round = 0; round < 130; round += 1) {
    const answer = await logIn({ email: `spray-${round}@example.com` }, "Password123!");
    statuses.push(answer.status);
    if (answer.status === 429) refusal ??= answer; // later ones may be of the gateway's own limit
  }
  expect(statuses.filter((status) => status === 401).length).toBeLessThanOrEqual(110);
  expect(refusal?.body.error.code).toBe("too_many_requests");
  expect(Number(refusal?.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
  expect(refusal?.headers.get("ratelimit-limit")).toBe("100");
});
