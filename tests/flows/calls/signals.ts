import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { createRemoteJWKSet, decodeJwt, jwtVerify } from "jose";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SESSION_REVOKED } from "#event-service/stream/signal.ts";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { newMachineClient, requestToken } from "../../support/people/machine-client.ts";
import { linkIn, mailAbout } from "../../support/people/mailbox.ts";
import { proveAddress } from "../../support/people/verified-user.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { ADMIN, type System } from "../../support/system/system.ts";

interface Told {
  audience: string;
  type: string;
  userId: string;
  sessionId: string;
  event: Record<string, unknown>;
}

let system: System;
let api: ApiClient;
let admin: { accessToken: string };
let server: Server;
let client: Awaited<ReturnType<typeof newMachineClient>>;
let token: string;
let stream: { stream_id: string; aud: string };
let jwks: ReturnType<typeof createRemoteJWKSet>;
const told: Told[] = [];
/** By `jti`: delivery is at least once. */
const known = new Set<string | undefined>();
const authorizations = new Set<string | undefined>();

/** As a receiver would: the signature by the transmitter's keys, issuer, audience and type. */
async function verified(token: string, audience: string): Promise<Told> {
  const { payload } = await jwtVerify(token, jwks, { issuer: system.url, audience, typ: "secevent+jwt" });
  const { sub_id: subject, events } = payload as {
    sub_id: { format: string; sub?: string; user?: { sub: string }; session?: { id: string } };
    events: Record<string, Record<string, unknown>>;
  };
  const [type = "", event = {}] = Object.entries(events)[0] ?? [];
  const userId = subject.sub ?? subject.user?.sub ?? "";
  return { audience: String(payload.aud), type, userId, sessionId: subject.session?.id ?? "", event };
}

async function newReceiver() {
  const made = await newMachineClient(api, ["signals:receive"]);
  const { credential, secret } = await made.add({ kind: "secret" });
  const { access_token: accessToken } = (await requestToken(api, made.id, secret)).body;
  return { client: made, token: accessToken as string, credential };
}

beforeAll(async () => {
  system = oneSystem();
  api = apiClient(system.url);
  jwks = createRemoteJWKSet(new URL(`${system.url}/.well-known/jwks.json`));
  admin = await api.logIn(ADMIN);
  server = createServer(async (request, response) => {
    authorizations.add(request.headers.authorization);
    const token = await text(request);
    const one = await verified(token, stream.aud);
    const { jti } = decodeJwt(token);
    if (!known.has(jti)) told.push(one);
    known.add(jti);
    response.writeHead(202).end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  ({ client, token } = await newReceiver());
  const delivery = {
    method: "urn:ietf:rfc:8935",
    endpoint_url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    authorization_header: "Bearer of-the-receiver",
  };
  const made = await api.post("/ssf/streams", { delivery }, { token });
  expect(made.status).toBe(201);
  stream = made.body;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

type User = Awaited<ReturnType<ApiClient["newUser"]>>;
const sessionOf = ({ accessToken }: { accessToken: string }) => String(decodeJwt(accessToken).sid);
const asAdmin = () => ({ token: admin.accessToken });
const asUser = ({ accessToken }: { accessToken: string }) => ({ token: accessToken });
const change = (user: User, body: object) =>
  api.call("PATCH", `/admin/users/${user.user.id}`, { ...asAdmin(), body });

/** Each ends the session of the user, and says what the receiver shall read. */
const WAYS: Record<
  string,
  { reason: string; by: "user" | "admin" | "policy" | undefined; end(user: User): Promise<unknown> }
> = {
  "a logout": {
    ...{ reason: "logout", by: "user" },
    end: (user) => api.post("/auth/logout", {}, asUser(user)),
  },
  "a logout everywhere": {
    ...{ reason: "logout", by: "user" },
    end: (user) => api.post("/auth/logout", { scope: "all" }, asUser(user)),
  },
  "a logout elsewhere": {
    ...{ reason: "logout", by: "user" },
    end: async (user) => api.post("/auth/logout", { scope: "others" }, asUser(await api.logIn(user))),
  },
  "the end of one of one's sessions": {
    ...{ reason: "session_ended", by: "user" },
    end: async (user) =>
      api.call("DELETE", `/auth/sessions/${sessionOf(user)}`, asUser(await api.logIn(user))),
  },
  "a used refresh token": {
    ...{ reason: "refresh_reuse", by: "policy" },
    async end({ refreshToken }) {
      const next = await api.post("/auth/refresh", { refreshToken });
      await api.post("/auth/refresh", { refreshToken: next.body.data.refreshToken });
      return api.post("/auth/refresh", { refreshToken });
    },
  },
  "the limit of sessions": {
    ...{ reason: "session_limit", by: "policy" },
    async end(user) {
      for (let n = 0; n < 20; n += 1) await api.logIn(user);
    },
  },
  "a changed password": {
    ...{ reason: "password_changed", by: "user" },
    end: async (user) =>
      api.post(
        "/auth/change-password",
        { currentPassword: user.password, newPassword: "an entirely new password" },
        asUser(await api.logIn(user)),
      ),
  },
  "a password that was forgotten": {
    ...{ reason: "password_reset", by: "user" },
    async end(user) {
      await api.post("/auth/forgot-password", { email: user.email });
      const link = linkIn(await mailAbout(system, user.email, "Set a new password"));
      const token = link.searchParams.get("token");
      return api.post("/auth/reset-password", { token, newPassword: "an entirely new password" });
    },
  },
  "a deleted account": {
    ...{ reason: "account_deleted", by: undefined },
    end: (user) => api.call("DELETE", "/auth/me", { ...asUser(user), body: { password: user.password } }),
  },
  "an account that an administrator deletes": {
    ...{ reason: "account_deleted", by: undefined },
    end: (user) => api.call("DELETE", `/admin/users/${user.user.id}`, asAdmin()),
  },
  "sessions that support ends": {
    ...{ reason: "ended_by_admin", by: "admin" },
    end: (user) => api.post(`/admin/users/${user.user.id}/sessions/revoke`, undefined, asAdmin()),
  },
  "a disabled account": {
    ...{ reason: "account_disabled", by: "admin" },
    end: (user) => change(user, { status: "disabled" }),
  },
  "a new password that is demanded": {
    ...{ reason: "password_change_required", by: "admin" },
    end: (user) => change(user, { mustChangePassword: true }),
  },
  "another role": {
    ...{ reason: "role_changed", by: "admin" },
    end: (user) => change(user, { role: "AUDITOR" }),
  },
};

test.each(Object.keys(WAYS))(
  "%s is told as session-revoked, once, signed, about this session",
  async (name) => {
    const way = WAYS[name];
    if (way === undefined) throw new Error(name);
    const user = await api.newUser();
    await proveAddress(system, api, user);
    const live = await api.logIn(user);
    await api.post("/auth/logout", {}, asUser(user));
    const own = () => told.filter(({ sessionId }) => sessionId === sessionOf(live));
    await way.end({ ...user, ...live });
    await expect.poll(own).toEqual([
      {
        ...{ audience: client.id, type: SESSION_REVOKED, userId: user.user.id, sessionId: sessionOf(live) },
        event: {
          event_timestamp: expect.any(Number),
          initiating_entity: way.by,
          reason_admin: { en: way.reason },
        },
      },
    ]);
  },
);

test("changes of credentials and accounts are told about the user", async () => {
  const user = await api.newUser();
  await proveAddress(system, api, user);
  const { accessToken: token } = await api.logIn(user);
  const body = { currentPassword: user.password, newPassword: "an entirely new password" };
  expect((await api.post("/auth/change-password", body, { token })).status).toBe(200);
  for (const status of ["disabled", "active"]) expect((await change(user, { status })).status).toBe(200);
  const types = () =>
    told
      .filter(({ userId, sessionId }) => userId === user.user.id && sessionId === "")
      .map(({ type }) => type.split("/").at(-1));
  await expect.poll(types).toEqual(["credential-change", "account-disabled", "account-enabled"]);
});

test("a receiver that polls gets what is signed for it, and acknowledges it", async () => {
  const other = await newReceiver();
  const made = (
    await api.post("/ssf/streams", { events_requested: [SESSION_REVOKED] }, { token: other.token })
  ).body;
  const poll = async (body: object = {}) => {
    const { pathname } = new URL(made.delivery.endpoint_url);
    const { sets } = (await api.post(pathname, { returnImmediately: true, ...body }, { token: other.token }))
      .body;
    return Object.entries(sets as Record<string, string>);
  };
  const user = await api.newUser();
  await api.post("/auth/logout", {}, asUser(user));
  const found = async () => {
    for (const [jti, token] of await poll())
      if ((await verified(token, other.client.id)).sessionId === sessionOf(user)) return jti;
    return undefined;
  };
  await expect.poll(found).toBeDefined();
  const jti = await found();
  // As many as one call may settle.
  const refused = Array.from({ length: 1_000 }, () => [randomUUID(), { err: "invalid_key" }]);
  const ack = [...Array.from({ length: 999 }, () => randomUUID()), jti];
  await poll({ maxEvents: 0, ack, setErrs: Object.fromEntries(refused) });
  expect(await found()).toBeUndefined();
  // The stream of the one is nothing to the other.
  expect((await api.post(`/ssf/streams/${stream.stream_id}/poll`, {}, { token: other.token })).status).toBe(
    404,
  );
  expect((await api.get(`/ssf/streams?stream_id=${made.stream_id}`, { token })).status).toBe(404);
});

test("a verification event comes back, and every push has the receiver's header", async () => {
  const verification = { stream_id: stream.stream_id, state: "x7-2" };
  expect((await api.post("/ssf/streams/verify", verification, { token })).status).toBe(204);
  await expect.poll(() => told.filter(({ event }) => event.state === "x7-2").length).toBe(1);
  expect([...authorizations]).toEqual(["Bearer of-the-receiver"]);
});

test("a client that is disabled is told nothing more", async () => {
  expect((await client.change({ status: "disabled" })).status).toBe(200);
  const webhooks = async () => {
    const { data } = (await api.get("/admin/webhooks", asAdmin())).body;
    return (data.webhooks as { id: string; status: string; pausedReason: string | null }[]).find(
      ({ id }) => id === stream.stream_id,
    );
  };
  await expect.poll(webhooks).toMatchObject({ status: "paused", pausedReason: "forbidden" });
  // Its courier ends a moment later.
  const served = async () => {
    const metrics = await fetch(`http://127.0.0.1:${system.ports.EVENT_OPERATIONS_PORT}/metrics`);
    return /^gatehouse_webhooks_served(?:\{.*\})? (\d+)$/m.exec(await metrics.text())?.[1];
  };
  await expect.poll(served).toBe("0");
  const before = told.length;
  const user = await api.newUser();
  await api.post("/auth/logout", {}, asUser(user));
  const log = async () =>
    (await api.get(`/admin/audit?resource=${user.user.id}&action=session.ended`, asAdmin())).body.data.entries
      .length;
  await expect.poll(log).toBe(1);
  expect(told.length).toBe(before);
});
