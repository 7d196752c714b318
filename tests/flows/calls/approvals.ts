import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, request } from "node:http";
import type { AddressInfo } from "node:net";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { TestAuthenticator } from "#identity-service/passkeys/authenticator.fixture.ts";
import { databaseOfSystem } from "../../support/database/system-database.ts";
import { addRoutes } from "../../support/house/routes.ts";
import { type Answer, type ApiClient, apiClient, type Call } from "../../support/people/api-client.ts";
import { expectOneUse } from "../../support/people/expect-one-use.ts";
import { totpApp } from "../../support/people/totp-app.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { ADMIN, BARE_ENVIRONMENT, readLog, type System } from "../../support/system/system.ts";

interface Received {
  url: string;
  body: string;
  headers: IncomingHttpHeaders;
}

const received: Received[] = [];
const upstream = createServer((incoming, response) => {
  const chunks: Buffer[] = [];
  incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
  incoming.on("end", () => {
    const { url = "", headers } = incoming;
    received.push({ url, headers, body: Buffer.concat(chunks).toString("utf8") });
    response.writeHead(201, { "content-type": "application/json" }).end('{"ok":true}');
  });
});

interface Payer {
  token: string;
  nextCode: () => Promise<string>;
  recoveryCodes: string[];
  user: { email: string; password: string };
}

let system: System;
let api: ApiClient;
let ada: Payer;
let otherSession: string;
let bob: Payer;

const PAYMENT = { amount: 12_500, currency: "EUR", payee: "DE89", reference: "rent" };

beforeAll(async () => {
  upstream.listen(0, "127.0.0.1");
  await once(upstream, "listening");
  system = oneSystem();
  api = apiClient(system.url);
  await addPayments(`http://127.0.0.1:${(upstream.address() as AddressInfo).port}`);
  ada = await newPayer();
  bob = await newPayer();
  otherSession = await logInAgain(ada);
});

beforeEach(() => {
  received.length = 0;
});

afterAll(() => {
  upstream.closeAllConnections();
  upstream.close();
});

async function addPayments(origin: string): Promise<void> {
  const approval =
    "approval: { fields: [/amount, /currency, /payee], when: { field: /amount, above: 10000 }, ttlSeconds: 60 }";
  const route = (prefix: string) => `
  - prefix: ${prefix}
    upstream: ${origin}
    maxOpenPerCaller: 2000
    rateLimit: { perUser: { calls: 9999, perSeconds: 1 }, perAddress: { calls: 9999, perSeconds: 1 } }
    methods:
      POST: { roles: [USER], action: pay.create, ${approval} }
      PUT: { roles: [USER], action: pay.replace, ${approval} }
`;
  await addRoutes(system, route("/pay") + route("/other"));
}

async function proveCredentials(userId: string): Promise<void> {
  await using database = await databaseOfSystem(system, "identity");
  await database.sql`
    update users set email_verified = true, credentials_proven_email = email, credentials_proven_at = created_at
    where id = ${userId}`;
}

/** The program itself, as an operator of this system. */
async function gatehouse(...argv: string[]): Promise<{ code: number; out: string }> {
  const env = { ...BARE_ENVIRONMENT, GATEHOUSE_HOME: system.home };
  const entry = resolve(import.meta.dirname, "../../../cli/main.ts");
  const child = spawn(process.execPath, [entry, ...argv], { env, stdio: ["ignore", "pipe", "inherit"] });
  const [out, [code]] = await Promise.all([text(child.stdout), once(child, "close")]);
  return { code, out };
}

async function newPayer(): Promise<Payer> {
  const user = await api.newUser();
  await proveCredentials(user.user.id);
  const token = user.accessToken;
  const setUp = await api.post("/auth/mfa/setup", { password: user.password }, { token });
  const { secret } = setUp.body.data;
  const nextCode = totpApp(secret);
  const enabled = await api.post("/auth/mfa/enable", { code: await nextCode() }, { token });
  expect(enabled.status).toBe(200);
  return { token, nextCode, recoveryCodes: enabled.body.data.recoveryCodes, user };
}

async function logInAgain({ user, recoveryCodes }: Payer): Promise<string> {
  const begun = await api.post("/auth/login", { email: user.email, password: user.password });
  const { tempToken } = begun.body.data;
  const done = await api.post("/auth/mfa/verify", { tempToken, code: recoveryCodes.pop() });
  expect(done.status).toBe(200);
  return done.body.data.accessToken;
}

const pay = (body: unknown, headers: Record<string, string> = {}, path = "/pay", token = ada.token) =>
  api.post(path, body, { token, headers });
const code = ({ status, body }: Answer) => `${status} ${body.error?.code ?? "ok"}`;

async function asked(body: unknown = PAYMENT, options: Call & { path?: string } = {}): Promise<string> {
  const answer = await pay(body, options.headers, options.path, options.token);
  expect(code(answer)).toBe("403 approval_required");
  return answer.body.error.details.approval.token;
}

async function approved(body: unknown = PAYMENT): Promise<string> {
  const token = await asked(body);
  const given = await api.post(
    "/auth/approvals/verify",
    { token, code: ada.recoveryCodes.pop() },
    { token: ada.token },
  );
  expect([given.status, given.body.data.method]).toEqual([200, "recovery_code"]);
  return token;
}

const withToken = (token: string, more: Record<string, string> = {}) => ({
  "gatehouse-approval": token,
  ...more,
});

test("asked, approved with a code, carried out with the same bytes, recorded", async () => {
  const body = ` {"payee":"DE89", "amount" : 12500.0,\n"currency":"EUR","note":"\\u00fc" } `;
  const first = await pay(body);
  expect(first).toMatchObject({
    status: 403,
    body: { success: false, error: { code: "approval_required" } },
  });
  const { approval } = first.body.error.details;
  expect(approval).toEqual({
    id: expect.stringMatching(/^[0-9a-f-]{36}$/),
    token: expect.stringMatching(/^[\w-]{43}$/),
    expiresIn: 60,
    details: { "/amount": 12_500, "/currency": "EUR", "/payee": "DE89" },
    methods: ["totp", "recovery_code"],
  });
  const { token } = approval;
  const before = await pay(body, withToken(token));
  expect(code(before)).toBe("403 approval_required");
  expect(received).toEqual([]);

  const wrong = await api.post(
    "/auth/approvals/verify",
    { token, code: "AAAA-AAAA-AAAA-AAAA" },
    { token: ada.token },
  );
  expect(code(wrong)).toBe("401 mfa_code_invalid");
  const foreign = await api.post(
    "/auth/approvals/verify",
    { token, code: await bob.nextCode() },
    { token: bob.token },
  );
  expect(code(foreign)).toBe("403 approval_mismatch");
  const given = await api.post(
    "/auth/approvals/verify",
    { token, code: await ada.nextCode() },
    { token: ada.token },
  );
  expect(given.status).toBe(200);
  const { approvalId } = given.body.data;

  const done = await pay(
    body,
    withToken(token, { "x-approval-id": "claimed", "x-approval-method": "claimed" }),
  );
  expect(done.status).toBe(201);
  expect(received).toHaveLength(1);
  expect(received[0]?.body).toBe(body);
  expect(received[0]?.headers).toMatchObject({
    "x-approval-id": approvalId,
    "x-approval-method": "totp",
    "x-approval-digest": expect.stringMatching(/^[0-9a-f]{64}$/),
    "x-approval-use": "first",
  });
  expect(received[0]?.headers).not.toHaveProperty("gatehouse-approval");
  expect(code(await pay(body, withToken(token)))).toBe("403 approval_used");
  expect(received).toHaveLength(1);

  const reason = `approval ${approvalId} totp ${received[0]?.headers["x-approval-digest"]}`;
  const admin = await api.logIn(ADMIN);
  const entries = async (action: string) => {
    const { body: page } = await api.get(`/admin/audit?action=${action}`, { token: admin.accessToken });
    return (page.data.entries as { reason?: string; outcome?: string; errorCode?: string }[]).map(
      (entry) => `${entry.outcome} ${entry.reason ?? ""}`,
    );
  };
  await expect.poll(() => entries("user.approval_used")).toEqual([`success ${reason}`]);
  await expect.poll(() => entries("user.approval_given")).toEqual([`success ${reason}`]);
  await expect.poll(() => entries("pay.create")).toContain(`success ${reason}`);
  await expect.poll(() => entries("user.approval_refused")).toContain(`failure ${reason}`);
  const log = await readLog(system, "gateway");
  expect(log).not.toContain(token);
});

test("below the threshold nothing is asked, and what is no number is", async () => {
  for (const amount of [10_000, 1, -5]) expect((await pay({ ...PAYMENT, amount })).status).toBe(201);
  expect(received.map(({ headers }) => headers["x-approval-id"])).toEqual([undefined, undefined, undefined]);
  received.length = 0;
  for (const amount of ["1", null, [1], undefined]) await asked({ ...PAYMENT, amount });
  await asked([]);
  expect(received).toEqual([]);
});

test("an approval is for one amount, payee, currency, route, method, session and user", async () => {
  const token = await approved();
  const changes: [string, () => Promise<Answer>][] = [
    ["amount", () => pay({ ...PAYMENT, amount: 12_501 }, withToken(token))],
    ["amount as text", () => pay({ ...PAYMENT, amount: "12500" }, withToken(token))],
    ["payee", () => pay({ ...PAYMENT, payee: "DE88" }, withToken(token))],
    ["currency", () => pay({ ...PAYMENT, currency: "USD" }, withToken(token))],
    ["no currency", () => pay({ amount: 12_500, payee: "DE89" }, withToken(token))],
    [
      "a moved field",
      () => pay({ amount: 12_500, currency: "EUR", to: { payee: "DE89" } }, withToken(token)),
    ],
    ["route", () => pay(PAYMENT, withToken(token), "/other")],
    ["path below", () => pay(PAYMENT, withToken(token), "/pay/7")],
    ["query", () => pay(PAYMENT, withToken(token), "/pay?twice=1")],
    ["method", () => api.call("PUT", "/pay", { token: ada.token, body: PAYMENT, headers: withToken(token) })],
    ["session", () => pay(PAYMENT, withToken(token), "/pay", otherSession)],
    ["user", () => pay(PAYMENT, withToken(token), "/pay", bob.token)],
    ["token", () => pay(PAYMENT, withToken(token.slice(0, -1)))],
    ["two tokens", () => pay(PAYMENT, withToken(`${token}, ${token}`))],
  ];
  for (const [name, change] of changes)
    expect([name, code(await change())]).toEqual([name, "403 approval_mismatch"]);
  expect(received).toEqual([]);
  expect((await pay(PAYMENT, withToken(token), "/v1/pay")).status).toBe(201);
});

test.each([
  ["a field twice", '{"amount":1,"amount":12500,"currency":"EUR","payee":"X"}', "400 validation_failed"],
  [
    "a field twice by an escape",
    '{"amount":1,"\\u0061mount":12500,"currency":"EUR","payee":"X"}',
    "400 validation_failed",
  ],
  [
    "a field in another case",
    '{"amount":1,"Amount":12500,"currency":"EUR","payee":"X"}',
    "400 validation_failed",
  ],
  ["only in another case", '{"AMOUNT":1,"currency":"EUR","payee":"X"}', "400 validation_failed"],
  ["an amount that a double rounds", '{"amount":10000.00000000000000001}', "400 validation_failed"],
  ["an amount beyond 2^53", '{"amount":9007199254740993}', "400 validation_failed"],
  ["a key twice elsewhere", '{"amount":1,"x":{"y":1,"y":2}}', "400 validation_failed"],
  ["no JSON", "amount=1", "400 bad_request"],
  ["nested too deep", `{"amount":1,"x":${"[".repeat(64)}${"]".repeat(64)}}`, "400 bad_request"],
])("never forwarded: %s", async (_name, body, expected) => {
  expect(code(await pay(body))).toBe(expected);
  expect(received).toEqual([]);
});

test("never forwarded: another type, a content coding, too many bytes, no body", async () => {
  const small = { ...PAYMENT, amount: 1 };
  expect(code(await pay(small, { "content-type": "text/plain" }))).toBe("415 unsupported_media_type");
  expect(code(await pay(small, { "content-type": "application/json; charset=utf-16" }))).toBe(
    "415 unsupported_media_type",
  );
  expect(code(await pay(small, { "content-encoding": "gzip" }))).toBe("415 unsupported_media_type");
  const filler = "x".repeat(65_536);
  expect(code(await pay({ ...small, filler }))).toBe("413 payload_too_large");
  expect(code(await api.call("POST", "/pay", { token: ada.token }))).toBe("400 bad_request");
  expect(received).toEqual([]);
  expect((await pay({ ...small, filler: "x".repeat(60_000) })).status).toBe(201);
});

test("a session that ends while the body arrives carries nothing out", async () => {
  const { accessToken } = await api.newUser();
  const body = JSON.stringify({ ...PAYMENT, amount: 1 });
  const call = request(`${system.url}/pay`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${accessToken}`,
      "content-type": "application/json",
      "content-length": Buffer.byteLength(body),
      expect: "100-continue",
    },
  });
  const answered = once(call, "response");
  call.flushHeaders();
  // The token was verified by now.
  await once(call, "continue");
  expect((await api.post("/auth/logout", undefined, { token: accessToken })).status).toBe(200);
  await expect
    .poll(async () => (await api.get("/auth/me", { token: accessToken })).status, { timeout: 10_000 })
    .toBe(401);
  call.end(body);
  const [answer] = (await answered) as [IncomingMessage];
  answer.resume();
  expect(answer.statusCode).toBe(401);
  expect(received).toEqual([]);
});

test("an answer that was lost can be repeated with the same idempotency key, and nothing else", async () => {
  const token = await approved();
  const key = randomUUID();
  const headers = withToken(token, { "idempotency-key": key });
  const answers = [await pay(PAYMENT, headers), await pay(PAYMENT, headers)];
  expect(answers.map(({ status }) => status)).toEqual([201, 201]);
  expect(received.map(({ headers: sent }) => sent["idempotency-key"])).toEqual([key, key]);
  expect(received.map(({ headers: sent }) => sent["x-approval-use"])).toEqual(["first", "repeated"]);
  expect(code(await pay({ ...PAYMENT, amount: 12_501 }, headers))).toBe("403 approval_mismatch");
  expect(code(await pay(PAYMENT, withToken(token, { "idempotency-key": "other" })))).toBe(
    "403 approval_used",
  );
  expect(code(await pay(PAYMENT, withToken(token)))).toBe("403 approval_used");
  expect(received).toHaveLength(2);
});

test("its user looks at it, refuses it or gives it by its id; for anybody else it does not exist", async () => {
  const ask = async () => {
    const { body } = await pay(PAYMENT);
    return body.error.details.approval as { id: string; token: string };
  };
  const look = (id: string, token = ada.token) => api.get(`/auth/me/approvals/${id}`, { token });
  const { id, token } = await ask();
  const seen = await look(id);
  expect(seen.status).toBe(200);
  expect(seen.body.data.approval).toMatchObject({
    ...{
      id,
      state: "pending",
      method: "POST",
      route: "/pay",
      current: true,
      methods: ["totp", "recovery_code"],
    },
    details: { "/amount": 12_500, "/currency": "EUR", "/payee": "DE89" },
  });
  expect(JSON.stringify(seen.body)).not.toContain(token);
  const elsewhere = (await look(id, otherSession)).body.data.approval;
  expect(elsewhere).toMatchObject({ state: "pending", current: false, methods: [] });
  const proof = { approvalId: id, code: ada.recoveryCodes.pop() };
  const verify = (by: string) => api.post("/auth/approvals/verify", proof, { token: by });
  expect(code(await verify(otherSession))).toBe("403 approval_mismatch");

  const refuse = (by: string, which = id) =>
    api.post(`/auth/me/approvals/${which}/refuse`, undefined, { token: by });
  for (const answer of [await look(id, bob.token), await refuse(bob.token), await look(randomUUID())])
    expect(code(answer)).toBe("404 not_found");
  expect((await look(id)).body.data.approval.state).toBe("pending");
  expect((await verify(ada.token)).status).toBe(200);
  expect((await look(id)).body.data.approval.state).toBe("given");
  expect(code(await pay(PAYMENT, withToken(token)))).toBe("201 ok");
  expect((await look(id)).body.data.approval.state).toBe("used");
  expect(code(await refuse(ada.token))).toBe("403 approval_used");

  const second = await ask();
  // Whoever has not asked may refuse it, too.
  expect((await refuse(otherSession, second.id)).status).toBe(200);
  expect((await look(second.id)).body.data.approval).toMatchObject({ state: "refused", methods: [] });
  expect(code(await pay(PAYMENT, withToken(second.token)))).toBe("403 approval_expired");
});

test("without a second factor nothing can be approved", async () => {
  const { accessToken } = await api.newUser();
  expect(code(await pay(PAYMENT, {}, "/pay", accessToken))).toBe("403 mfa_enrollment_required");
  expect(received).toEqual([]);
});

test("of 300 uses at once, one reaches the upstream", async () => {
  const impatient = apiClient(system.url, { isPatient: false });
  const options = { token: ada.token, headers: withToken(await approved()) };
  const answers = await Promise.all(
    Array.from({ length: 300 }, async (_, index) => {
      await sleep(Math.floor(index / 25) * 5);
      return impatient.post("/pay", PAYMENT, options).catch(() => undefined);
    }),
  );
  const answered = answers.filter((answer) => answer !== undefined);
  expect(received.length).toBeLessThanOrEqual(1);
  expectOneUse(answered, 201);
  expect(answered.map(({ status }) => status)).not.toContain(429);
}, 60_000);

test("an approval ends with its time", async () => {
  const token = await approved();
  await using database = await databaseOfSystem(system, "identity");
  await database.sql`update approvals set expires_at = now() where used_at is null`;
  expect(code(await pay(PAYMENT, withToken(token)))).toBe("403 approval_expired");
  expect(received).toEqual([]);
});

test("what a passkey approved is proven from two exported files", async () => {
  const user = await api.newUser();
  const token = user.accessToken;
  await proveCredentials(user.user.id);
  const origin = `http://localhost:${system.ports.GATEWAY_PORT}`;
  const device = new TestAuthenticator("ES256", { rpId: "localhost", origin });
  const options = await api.post("/auth/passkeys/options", undefined, { token });
  const { credentialId: id, transports, ...made } = device.create(options.body.data);
  const { clientDataJson: clientDataJSON, attestationObject } = made;
  const response = {
    id,
    rawId: id,
    type: "public-key",
    response: { clientDataJSON, attestationObject, transports },
  };
  const added = await api.post("/auth/passkeys", { name: "Key", response }, { token });
  expect(added.status).toBe(201);

  const first = await pay(PAYMENT, {}, "/pay", token);
  const { approval } = first.body.error.details;
  const { clientDataJson, authenticatorData, signature, userHandle } = device.get(approval.passkey);
  const passkey = {
    ...{ id, rawId: id, type: "public-key" },
    response: { clientDataJSON: clientDataJson, authenticatorData, signature, userHandle },
  };
  const given = await api.post("/auth/approvals/verify", { token: approval.token, passkey }, { token });
  expect([given.status, given.body.data.method]).toEqual([200, "passkey"]);
  expect((await pay(PAYMENT, withToken(approval.token), "/pay", token)).status).toBe(201);

  const at = (name: string) => join(system.home, name);
  const { verifierKey } = JSON.parse((await gatehouse("audit", "checkpoint", "--json")).out);
  await gatehouse("approvals", "export", "--output", at("approvals.jsonl"));
  const { approvalId } = given.body.data;
  let proven: unknown;
  const prove = async () => {
    await gatehouse("audit", "export", "--output", at("log.jsonl"), "--force");
    const files = ["--approvals", at("approvals.jsonl"), "--log", at("log.jsonl"), "--key", verifierKey];
    const { code, out } = await gatehouse("approvals", "prove", approvalId, "--json", ...files);
    proven = JSON.parse(out);
    return code;
  };
  // The last events come a moment later.
  await expect.poll(prove, { interval: 500 }).toBe(0);
  expect(proven).toMatchObject({
    result: "proven",
    approval: {
      transaction: {
        user: user.user.id,
        method: "POST",
        route: "/pay",
        fields: { "/amount": 12_500, "/payee": "DE89" },
      },
      signedBy: { passkeyId: added.body.data.passkey.id, credentialId: id, origin },
      calls: [{ action: "pay.create", httpStatus: 201 }],
    },
  });
}, 60_000);
