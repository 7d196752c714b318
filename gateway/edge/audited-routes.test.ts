import { once } from "node:events";
import { createServer, request as httpRequest, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { AUDIT_ACTIONS } from "#audit-client/stream/audit-actions.ts";
import type { AuditOutcome } from "#audit-client/stream/audit-entry.ts";
import { DomainError } from "#kit/values/errors.ts";
import { UserStatus } from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import { isMutating } from "../routing/route-policy.ts";
import {
  clientCredential,
  creationOptions,
  endpoint,
  machineClient,
  passkey,
  requestOptions,
  stream,
} from "../testing/answering-gateway.ts";
import {
  ada,
  completedLogin,
  HOST,
  principalWith,
  routesOf,
  SESSION_ID,
  testGateway,
  tokens,
  USER_ID,
} from "../testing/test-gateway.ts";

const SECRET = "pqAsFNc2yu6Q0Fhj3tBkmcTwfYV4n1c7";
const password = "correct horse battery";
const { email } = ada;
const form = { "content-type": "application/x-www-form-urlencoded" };
const basic = { authorization: `Basic ${Buffer.from(`ledger:${SECRET}`).toString("base64")}` };
const user = { authorization: "Bearer user-token" };
const admin = { authorization: "Bearer admin-token" };
const receiver = { authorization: "Bearer own-token" };

interface Sample {
  headers?: Record<string, string>;
  query?: string;
  body?: unknown;
}

/** A call that passes authentication and validation, for every route that changes something. A new one belongs here. */
const SAMPLES: Record<string, Sample> = {
  "POST /auth/register": { body: { email, password, firstName: "Ada", lastName: "Lovelace" } },
  "POST /auth/login": { body: { email, password } },
  "POST /auth/refresh": { body: { refreshToken: "refresh" } },
  "POST /auth/logout": { headers: user },
  "DELETE /auth/sessions/:id": { headers: user },
  "DELETE /auth/trusted-devices/:id": { headers: user },
  "POST /auth/mfa/verify": { body: { tempToken: "temp", code: "123456" } },
  "POST /auth/step-up": { headers: user, body: { acr: 2 } },
  "POST /auth/step-up/verify": { headers: user, body: { stepUpToken: "temp", code: "123456" } },
  "POST /auth/mfa/setup": { headers: user, body: { password } },
  "POST /auth/mfa/enable": { headers: user, body: { code: "123456" } },
  "POST /auth/mfa/disable": { headers: user, body: { password, code: "123456" } },
  "POST /auth/mfa/recovery-codes": { headers: user, body: { code: "123456" } },
  "POST /auth/passkeys/options": { headers: user },
  "POST /auth/passkeys": {
    headers: user,
    body: {
      name: "Phone",
      response: {
        id: "AAAA",
        type: "public-key",
        response: { clientDataJSON: "AAAA", attestationObject: "AAAA" },
      },
    },
  },
  "PATCH /auth/passkeys/:id": { headers: user, body: { name: "Phone" } },
  "DELETE /auth/passkeys/:id": { headers: user },
  "POST /auth/passkeys/login": {
    body: {
      challengeToken: "challenge",
      response: {
        id: "AAAA",
        type: "public-key",
        response: { clientDataJSON: "AAAA", authenticatorData: "AAAA", signature: "AAAA" },
      },
    },
  },
  "POST /auth/me/approvals/:id/refuse": { headers: user },
  "POST /auth/approvals/verify": { headers: user, body: { token: "approval", code: "123456" } },
  "POST /auth/verify-email": { body: { token: "link" } },
  "POST /auth/reset-password": { body: { token: "link", newPassword: password } },
  "POST /auth/confirm-email-change": { body: { token: "link" } },
  "POST /auth/disown-account": { body: { token: "link" } },
  "POST /auth/undo-access-change": { body: { token: "link" } },
  "POST /auth/undo-email-change": { body: { token: "link" } },
  "POST /auth/resend-verification": { body: { email } },
  "POST /auth/forgot-password": { body: { email } },
  "POST /auth/change-password": { headers: user, body: { currentPassword: password, newPassword: password } },
  "PATCH /auth/me": { headers: user, body: { firstName: "Ada" } },
  "DELETE /auth/me": { headers: user, body: { password } },
  "POST /auth/change-email": { headers: user, body: { newEmail: email, password } },
  "POST /auth/login/change-password": { body: { tempToken: "temp", newPassword: password } },
  "POST /auth/oauth/exchange": { body: { code: "code", codeVerifier: "v".repeat(43) } },
  "POST /auth/:provider/events": {
    headers: { "content-type": "application/secevent+jwt" },
    body: "a.b.c",
  },
  "POST /auth/me/identities/:provider": { headers: user, body: { password } },
  "DELETE /auth/me/identities/:provider": { headers: user, body: { password } },
  "PATCH /admin/users/:id": { headers: admin, body: { role: "AUDITOR" } },
  "DELETE /admin/users/:id": { headers: admin },
  "POST /admin/users/:id/sessions/revoke": { headers: admin },
  "POST /admin/users/:id/mfa/reset": { headers: admin },
  "DELETE /admin/users/:id/passkeys/:passkeyId": { headers: admin },
  "POST /admin/users/:id/unlock": { headers: admin },
  "POST /admin/users": {
    headers: admin,
    body: { email: "new@example.com", firstName: "New", lastName: "" },
  },
  "POST /admin/users/:id/mail": { headers: admin, body: { link: "reset" } },
  "POST /oauth/token": { headers: { ...form, ...basic }, body: "grant_type=client_credentials" },
  "POST /oauth/revoke": { headers: { ...form, ...basic }, body: "token=own-token" },
  "POST /admin/clients": {
    headers: admin,
    body: { name: "Shop", ownerId: USER_ID, permissions: ["payments:read"] },
  },
  "PATCH /admin/clients/:id": { headers: admin, body: { name: "Shop 2" } },
  "DELETE /admin/clients/:id": { headers: admin },
  "POST /admin/clients/:id/credentials": { headers: admin, body: { kind: "secret" } },
  "DELETE /admin/clients/:id/credentials/:credentialId": { headers: admin },
  "POST /admin/webhooks": {
    headers: admin,
    body: { name: "Tickets", url: "https://tickets.example/hook", types: ["gatehouse.user.*"] },
  },
  "PATCH /admin/webhooks/:id": { headers: admin, body: { status: "paused" } },
  "DELETE /admin/webhooks/:id": { headers: admin },
  "POST /ssf/streams": { headers: receiver },
  "PATCH /ssf/streams": { headers: receiver, body: { stream_id: USER_ID } },
  "PUT /ssf/streams": { headers: receiver, body: { stream_id: USER_ID } },
  "DELETE /ssf/streams": { headers: receiver, query: `?stream_id=${USER_ID}` },
  "POST /ssf/streams/status": { headers: receiver, body: { stream_id: USER_ID, status: "paused" } },
  "POST /ssf/streams/verify": { headers: receiver, body: { stream_id: USER_ID } },
  "POST /admin/webhooks/:id/secret": { headers: admin },
  "POST /admin/webhooks/:id/test": { headers: admin },
  "POST /admin/webhooks/:id/replay": { headers: admin, body: { from: [{ log: 0, sequence: 1 }] } },
  "POST /payments": { headers: user, body: {} },
  "PUT /payments": { headers: user, body: {} },
  "PATCH /payments": { headers: user, body: {} },
  "DELETE /payments": { headers: user },
  "POST /payments/*": { headers: user, body: {} },
  "PUT /payments/*": { headers: user, body: {} },
  "PATCH /payments/*": { headers: user, body: {} },
  "DELETE /payments/*": { headers: user },
};

/** Turned into a GET by a redirect, without asking any service. */
const FORM_POST = "POST /auth/:provider/callback";

/** Answers whatever any handler asks of its service. */
const { result } = completedLogin();
const ANYTHING = {
  // Of a login; of a later step of one it is a message of its own.
  result: { ...result, result },
  tokens,
  user: ada,
  userId: USER_ID,
  endedSessionIds: [SESSION_ID],
  recoveryCodes: [],
  kind: "active",
  principal: principalWith("USER"),
  authorizationUrl: "https://provider.test/authorize",
  browserToken: "b".repeat(43),
  expiresInS: 600,
  acr: "urn:gatehouse:acr:2",
  client: machineClient,
  credential: clientCredential,
  endpoint,
  stream,
  clientId: USER_ID,
  credentialId: SESSION_ID,
  passkeyOptionsJson: JSON.stringify(requestOptions),
  passkey,
};
const OPTIONS: Readonly<Record<string, unknown>> = {
  beginPasskeyRegistration: creationOptions,
  beginPasskeyRegistrationAtLogin: creationOptions,
  beginPasskeyLogin: requestOptions,
};
const MANAGED = { user: { user: ada, status: UserStatus.ACTIVE }, endedSessionIds: [SESSION_ID] };

/** How the services behind the gateway, and the upstream, take the call. */
interface Behaviour {
  service: () => Promise<unknown>;
  upstream: (response: ServerResponse) => void;
  leaves?: boolean;
  expected: { outcome: AuditOutcome["outcome"][]; httpStatus: (status: number) => boolean };
}

const reached: { resolve: () => void } = { resolve: () => undefined };
const fails = (error: Error) => () => Promise.reject(error);
const status = (from: number) => (given: number) => given >= from && given < from + 100;
const BEHAVIOURS: Record<string, Behaviour> = {
  "2xx": {
    service: async () => ANYTHING,
    upstream: (response) => response.writeHead(201).end("made"),
    expected: { outcome: ["success"], httpStatus: status(200) },
  },
  "4xx": {
    service: fails(new DomainError("validation_failed")),
    upstream: (response) => response.writeHead(409).end("no"),
    expected: { outcome: ["failure"], httpStatus: status(400) },
  },
  "5xx": {
    service: fails(new Error("a bug")),
    upstream: (response) => response.destroy(),
    expected: { outcome: ["unknown"], httpStatus: status(500) },
  },
  "a time-out": {
    service: fails(new DomainError("service_unavailable")),
    upstream: () => undefined,
    expected: { outcome: ["unknown"], httpStatus: status(500) },
  },
  "an answer that is cut off": {
    service: async () => ANYTHING,
    upstream: (response) => {
      response.writeHead(201, { "content-length": 1_000 }).write("made, and");
      setTimeout(() => response.destroy(), 10);
    },
    // Our own answers are whole; what an upstream did is not known.
    expected: { outcome: ["success", "unknown"], httpStatus: status(200) },
  },
  "a client that leaves": {
    service: async () => {
      reached.resolve();
      await new Promise((resolve) => setTimeout(resolve, 30));
      return ANYTHING;
    },
    upstream: () => reached.resolve(),
    leaves: true,
    // Ours carry on; an upstream call is given up with its client, and nobody knows what it did.
    expected: { outcome: ["success", "unknown"], httpStatus: () => true },
  },
};

let behaviour: Behaviour = BEHAVIOURS["2xx"] as Behaviour;
const backend = new Proxy(
  {},
  {
    get: (_own, name) => async () => {
      const answered = await behaviour.service();
      const options = OPTIONS[String(name)];
      if (answered !== ANYTHING || options === undefined) return answered;
      return { ...ANYTHING, optionsJson: JSON.stringify(options) };
    },
  },
) as never;
const MANAGED_AUDITOR = { ...MANAGED, user: { ...MANAGED.user, user: { ...ada, role: "AUDITOR" } } };
const users = {
  setUserAccess: async () => ((await behaviour.service()) === ANYTHING ? MANAGED_AUDITOR : undefined),
  inviteUser: async () => ((await behaviour.service()) === ANYTHING ? MANAGED_AUDITOR : undefined),
  unlockUser: async () => behaviour.service(),
};
const upstream = createServer((request, response) => {
  request.resume();
  behaviour.upstream(response);
});
let gateway: ReturnType<typeof testGateway>;
const found: string[] = [];
const actions = new Set<string>();
const notAudited: string[] = [];

beforeAll(async () => {
  upstream.listen(0, "127.0.0.1");
  await once(upstream, "listening");
  const changing = { roles: ["USER" as const], action: "payments.change" };
  gateway = testGateway({
    identity: backend,
    users: new Proxy(users, {
      get: (own, name) => Reflect.get(own, name) ?? Reflect.get(backend, name),
    }) as never,
    clients: backend,
    clientAdmin: backend,
    webhooks: backend,
    signals: backend,
    sessions: backend,
    verifier: {
      verify: (token) =>
        token === "own-token"
          ? {
              kind: "active",
              principal: {
                ...principalWith(""),
                ...{ kind: "client", clientId: USER_ID, userId: "", scopes: ["signals:receive"] },
              },
            }
          : { kind: "active", principal: principalWith(token === "admin-token" ? "ADMIN" : "USER") },
      refuseSession: () => undefined,
      nowMs: () => Date.now(),
      assertReady: () => undefined,
      close: () => undefined,
    },
    routes: routesOf([
      {
        prefix: "/payments",
        upstream: `http://127.0.0.1:${portOf(upstream)}`,
        timeoutMs: 500,
        bodyLimitBytes: 1_000,
        methods: {
          GET: { roles: ["USER"] },
          POST: changing,
          PUT: changing,
          PATCH: changing,
          DELETE: changing,
        },
      },
    ]),
  });
  gateway.app.addHook("onRoute", ({ method, url, config }) => {
    // What the routes file forwards is chosen by its table: the samples say which methods.
    if (config?.isProxy) return;
    if (config?.action !== undefined) actions.add(config.action);
    for (const each of [method].flat().filter(isMutating)) {
      (config?.isAudited === false ? notAudited : found).push(`${each} ${url}`);
    }
  });
  await gateway.app.listen({ port: 0, host: "127.0.0.1" });
});

beforeEach(() => {
  gateway.entries.length = 0;
});

afterAll(async () => {
  upstream.closeAllConnections();
  upstream.close();
  await gateway.app.close();
});

test("no route is spared its entries but what has its own, and what pages ask as they open: a challenge, whether a link is good", () => {
  const names = [
    "/admin/user-search",
    "/auth/device-session",
    "/auth/links",
    "/auth/passkeys/login/options",
    "/oauth/introspect",
    "/ssf/streams/:id/poll",
  ];
  expect(notAudited.sort()).toEqual(names.flatMap((name) => [`POST ${name}`, `POST /v1${name}`]).sort());
});

test("every route that changes something is tried here, with and without a version", () => {
  const own = Object.keys(SAMPLES).filter((name) => !name.includes(" /payments"));
  const expected = [...own, FORM_POST].flatMap((name) => [name, name.replace(" /", " /v1/")]);
  expect(found.sort()).toEqual(expected.sort());
});

test("the list of actions has those of all routes, and of no route that is gone", () => {
  const { login, account, administration } = AUDIT_ACTIONS;
  const ofClients = AUDIT_ACTIONS.client.filter((name) => /^client\.(?:token|stream)/.test(name));
  expect([...actions].sort()).toEqual([...login, ...account, ...administration, ...ofClients].sort());
});

test.each(Object.keys(SAMPLES).flatMap((name) => Object.keys(BEHAVIOURS).map((kind) => ({ name, kind }))))(
  "$name, $kind: one intent, one outcome",
  async ({ name, kind }) => {
    behaviour = BEHAVIOURS[kind] as Behaviour;
    await call(name, SAMPLES[name] as Sample, behaviour.leaves === true);
    await expect.poll(() => gateway.entries.length).toBeGreaterThanOrEqual(2);
    await new Promise((resolve) => setTimeout(resolve, 5)); // room for one too many
    const [intent, outcome] = gateway.entries;
    expect(gateway.entries.map((entry) => entry.kind)).toEqual(["intent", "outcome"]);
    expect(intent?.action).toMatch(/^[a-z]+(\.[a-z_]+)+$/);
    expect({ callId: outcome?.callId, action: outcome?.action }).toEqual({
      callId: intent?.callId,
      action: intent?.action,
    });
    const { outcome: result, httpStatus } = outcome as AuditOutcome;
    expect(behaviour.expected.outcome).toContain(result);
    expect(behaviour.expected.httpStatus(httpStatus)).toBe(true);
  },
);

test("a form of a provider that becomes a redirect: one intent, one outcome", async () => {
  await call(FORM_POST, { headers: form, body: "code=c&state=s" }, false);
  await expect.poll(() => gateway.entries).toHaveLength(2);
  expect(gateway.entries.map((entry) => entry.kind)).toEqual(["intent", "outcome"]);
});

test("the challenge of a login with a passkey, for which every view of a login page asks, leaves no entry", async () => {
  behaviour = BEHAVIOURS["2xx"] as Behaviour;
  await call("POST /auth/passkeys/login/options", { body: {} }, false);
  await call("POST /auth/logout", { headers: user }, false);
  await expect.poll(() => gateway.entries).toHaveLength(2);
  expect(gateway.entries.map(({ action }) => action)).toEqual(["auth.logout", "auth.logout"]);
});

async function call(name: string, { headers, query = "", body }: Sample, leaves: boolean): Promise<void> {
  const [method = "", pattern = ""] = name.split(" ");
  const text = typeof body === "string" || body === undefined ? body : JSON.stringify(body);
  const request = httpRequest({
    port: portOf(gateway.app.server),
    method,
    path: `${pattern
      .replace(":id", USER_ID)
      .replace(":credentialId", SESSION_ID)
      .replace(":passkeyId", SESSION_ID)
      .replace(":provider", "demo")
      .replace("*", "pay_1")}${query}`,
    agent: false,
    headers: {
      host: HOST,
      // Node announces no body of a DELETE by itself.
      ...(text !== undefined && { "content-type": "application/json", "content-length": text.length }),
      ...headers,
    },
  });
  const work = new Promise<void>((resolve) => {
    reached.resolve = resolve;
  });
  request.end(text);
  if (leaves) {
    request.on("error", () => undefined);
    await work;
    request.destroy();
    return;
  }
  const [response] = await once(request, "response");
  response.on("error", () => undefined).resume();
  await new Promise((resolve) => response.once("close", resolve));
}

function portOf(server: { address(): unknown }): number {
  return (server.address() as AddressInfo).port;
}
