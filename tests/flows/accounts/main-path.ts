import { createHash, createPublicKey, randomUUID, verify } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { databaseOfSystem } from "../../support/database/system-database.ts";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { isConsistent, isIncluded } from "../../support/people/verify-proof.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { ADMIN, readLog, type System } from "../../support/system/system.ts";

let system: System;
let api: ApiClient;

beforeAll(() => {
  system = oneSystem();
  api = apiClient(system.url);
});

const payment = { amount: 1250, currency: "EUR", payee: "ACME Ltd", reference: "invoice 7" };

/** Everything the audit log has on a request, oldest first, once the outcome is there. */
async function auditOf(requestId: string | null) {
  const { accessToken } = await api.logIn(ADMIN);
  const read = async () => {
    const { body } = await api.get(`/admin/audit?requestId=${requestId}`, { token: accessToken });
    // Besides these two the service whose effect it is writes an event.
    return body.data.entries.toReversed().filter(({ kind }: { kind: string }) => kind !== "event");
  };
  await expect.poll(async () => (await read()).length).toBe(2);
  return read();
}

test("register, log in, pay, refresh, log out: the token is dead, and the audit log has it all", async () => {
  const credentials = { email: `Ada.${randomUUID()}@Example.COM`, password: "Password123!" };

  const registered = await api.post("/auth/register", {
    ...credentials,
    firstName: "Ada",
    lastName: "Lovelace",
  });
  expect(registered.status).toBe(201);
  expect(registered.body).toEqual({
    success: true,
    message: expect.any(String),
    data: {
      user: {
        id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        email: credentials.email.toLowerCase(),
        firstName: "Ada",
        lastName: "Lovelace",
        role: "USER",
        emailVerified: false,
        mfaEnabled: false,
        createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
        language: "",
        timeZone: "",
      },
    },
  });

  const loggedIn = await api.post("/auth/login", credentials);
  expect(loggedIn).toMatchObject({
    status: 200,
    body: { success: true, data: { tokenType: "Bearer", expiresIn: 900, user: registered.body.data.user } },
  });
  expect(loggedIn.headers.get("cache-control")).toBe("no-store");
  const token = loggedIn.body.data.accessToken;

  expect((await api.get("/auth/me", { token })).body.data.user).toEqual(registered.body.data.user);

  const paid = await api.post("/payments", payment, { token });
  expect(paid).toMatchObject({ status: 201, body: { success: true } });
  const listed = await api.get("/payments", { token });
  expect(listed.body.data.payments).toMatchObject([payment]);

  const refreshed = await api.post("/auth/refresh", { refreshToken: loggedIn.body.data.refreshToken });
  expect(refreshed).toMatchObject({ status: 200, body: { data: { tokenType: "Bearer" } } });
  const next = refreshed.body.data.accessToken;
  expect(next).not.toBe(token);
  expect((await api.get("/payments", { token: next })).status).toBe(200);

  const loggedOut = await api.post("/auth/logout", undefined, { token: next });
  expect(loggedOut.status).toBe(200);
  for (const dead of [next, token]) {
    expect(await api.get("/payments", { token: dead })).toMatchObject({
      status: 401,
      body: { error: { code: "token_invalid" } },
    });
  }
  expect(await api.post("/auth/refresh", { refreshToken: refreshed.body.data.refreshToken })).toMatchObject({
    status: 401,
    body: { error: { code: "refresh_token_invalid" } },
  });

  const userId = registered.body.data.user.id;
  const expected = [
    [registered, "auth.register", 201, {}],
    [loggedIn, "auth.login", 200, {}],
    [paid, "payments.create", 201, { userId, role: "USER" }],
    [refreshed, "auth.refresh", 200, {}],
    [loggedOut, "auth.logout", 200, { userId, role: "USER" }],
  ] as const;
  for (const [answer, action, httpStatus, actor] of expected) {
    const [intent, outcome] = await auditOf(answer.headers.get("x-request-id"));
    expect(intent).toMatchObject({ kind: "intent", action, actor });
    expect(outcome).toMatchObject({ kind: "outcome", action, actor, outcome: "success", httpStatus });
    expect(outcome.callId).toBe(intent.callId);
  }
});

test("an entry is proven within two seconds, by hashes and a signature that anyone can check", async () => {
  const { accessToken: token } = await api.logIn(ADMIN);
  const { headers } = await api.post("/payments", payment, { token });
  const [intent] = await auditOf(headers.get("x-request-id"));
  const read = async () => (await api.get(`/admin/audit/${intent.id}`, { token })).body.data;
  await expect.poll(async () => (await read()).proof, { interval: 100 }).not.toBeNull();
  const { entry, proof } = await read();

  const [origin, size, root] = proof.checkpoint.split("\n");
  expect(createHash("sha256").update(Buffer.of(0)).update(proof.leafData).digest("base64")).toBe(
    proof.leafHash,
  );
  expect(JSON.parse(proof.leafData)).toMatchObject({
    id: intent.id,
    sequence: entry.sequence,
    route: "/payments",
  });
  const claim = {
    index: entry.sequence - 1,
    size: Number(size),
    leafHash: bytes(proof.leafHash),
    root: bytes(root),
  };
  expect(isIncluded({ ...claim, proof: proof.inclusionProof.map(bytes) })).toBe(true);

  const { checkpoint, verifierKey } = (await api.get("/admin/audit/checkpoint", { token })).body.data;
  const [, later, laterRoot] = checkpoint.split("\n");
  const consistency = await api.get(`/admin/audit/consistency?from=${size}&to=${later}`, { token });
  const roots = { firstRoot: bytes(root), secondRoot: bytes(laterRoot) };
  const path = consistency.body.data.proof.map(bytes);
  expect(isConsistent({ first: Number(size), second: Number(later), proof: path, ...roots })).toBe(true);
  expect(isSignedBy(verifierKey, checkpoint)).toBe(true);

  // The same checkpoint is on standard output and in the file, outside the database.
  expect(origin).toBe("gatehouse.local/audit");
  const logged = (await readLog(system, "audit-service"))
    .split("\n")
    .filter((line) => line.includes('"checkpoint"'));
  expect(logged.map((line) => JSON.parse(line).checkpoint)).toContain(proof.checkpoint);
  const file = await readFile(join(system.home, "checkpoints.jsonl.latest"), "utf8");
  expect(
    file
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line).note),
  ).toContain(proof.checkpoint);
});

const bytes = (text: string) => Buffer.from(text, "base64");

/** C2SP signed-note with Ed25519. */
function isSignedBy(verifierKey: string, note: string): boolean {
  const [text = "", signatureLine = ""] = note.split("\n\n");
  const key = bytes(verifierKey.split("+").slice(2).join("+")).subarray(1);
  const spki = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), key]);
  const signature = bytes(signatureLine.split(" ")[2] ?? "").subarray(4);
  return verify(
    null,
    Buffer.from(`${text}\n`),
    createPublicKey({ key: spki, format: "der", type: "spki" }),
    signature,
  );
}

test("a logout is felt at once: thirty times, the very next request is refused", async () => {
  const user = await api.newUser();
  for (let round = 0; round < 30; round += 1) {
    const { accessToken: token } = await sessionOf(user);
    expect((await api.get("/auth/me", { token })).status).toBe(200);
    expect((await api.post("/auth/logout", undefined, { token })).status).toBe(200);
    expect((await api.get("/auth/me", { token })).status).toBe(401);
  }
});

const sessionOf = (user: { email: string; password: string }) => api.logIn(user);

test("the payments API accepts what the gateway gives it, and no token that a caller has", async () => {
  const { accessToken } = await api.newUser();
  expect((await api.get("/payments", { token: accessToken })).status).toBe(200);
  const direct = apiClient(`http://127.0.0.1:${system.ports.PAYMENTS_PORT}`);
  expect(await direct.get("/payments", { token: accessToken })).toMatchObject({
    status: 401,
    body: { error: { code: "token_invalid" } },
  });
});

test("who may do what with payments", async () => {
  const user = await api.newUser();
  const auditor = await api.newUser();
  await using database = await databaseOfSystem(system, "identity");
  await database.sql`update users set role = 'AUDITOR' where id = ${auditor.user.id}`;
  const tokens = {
    USER: user.accessToken,
    ADMIN: (await api.logIn(ADMIN)).accessToken,
    AUDITOR: (await api.logIn(auditor)).accessToken,
  };
  const { body } = await api.post("/payments", payment, { token: tokens.USER });
  const own = `/payments/${body.data.payment.id}`;

  const rows: [string, string, unknown, Record<string, number>][] = [
    ["GET", "/payments", undefined, { none: 401, USER: 200, ADMIN: 200, AUDITOR: 403 }],
    ["POST", "/payments", payment, { none: 401, USER: 201, ADMIN: 201, AUDITOR: 403 }],
    ["DELETE", own, undefined, { none: 401, USER: 403, AUDITOR: 403, ADMIN: 200 }],
    ["PUT", own, payment, { none: 405, USER: 405, ADMIN: 405, AUDITOR: 405 }],
    ["GET", "/admin/audit", undefined, { none: 401, USER: 403, ADMIN: 200, AUDITOR: 200 }],
    ["GET", "/paymentsx", undefined, { none: 404, USER: 404 }],
  ];
  for (const [method, path, requestBody, statuses] of rows) {
    for (const [who, status] of Object.entries(statuses)) {
      const token = who === "none" ? {} : { token: tokens[who as keyof typeof tokens] };
      const answer = await api.call(method, path, {
        ...token,
        ...(requestBody ? { body: requestBody } : {}),
      });
      expect({ who, method, path, status: answer.status }).toEqual({ who, method, path, status });
    }
  }
});

test("a refused call is challenged as RFC 6750 says", async () => {
  const missing = await api.get("/payments");
  expect(missing).toMatchObject({ status: 401, body: { success: false, error: { code: "token_missing" } } });
  expect(missing.headers.get("www-authenticate")).toMatch(/^Bearer error="/);
  const broken = await api.get("/payments", { token: "not.a.token" });
  expect(broken).toMatchObject({ status: 401, body: { error: { code: "token_invalid" } } });
  expect(broken.headers.get("www-authenticate")).toMatch(/Bearer .*error="invalid_token"/);
});

test.each([
  ["an unknown key", { email: "a@example.com", password: "x", admin: true }, "admin"],
  ["a wrong type", { email: 123, password: "x" }, "email"],
  ["a missing field", { email: "a@example.com" }, "password"],
  ["a key twice", '{"email":"a@example.com","password":"x","password":"y"}', "password"],
])("%s in a body is named", async (_name, body, field) => {
  const answer = await api.post("/auth/login", body);
  expect(answer).toMatchObject({
    status: 400,
    body: { success: false, error: { code: "validation_failed" } },
  });
  expect(answer.body.error.details.map((detail: { field: string }) => detail.field)).toContain(field);
  expect(answer.body.error.requestId).toBe(answer.headers.get("x-request-id"));
});

test("a wrong password and an unknown address get the same bytes", async () => {
  const user = await api.newUser();
  const answers = await Promise.all([
    api.post("/auth/login", { email: user.email, password: "not the password" }),
    api.post("/auth/login", { email: `nobody-${randomUUID()}@example.com`, password: "not the password" }),
  ]);
  const [known, unknown] = answers.map(({ status, body }) => {
    const { requestId, ...error } = body.error;
    expect(requestId).toBeTypeOf("string");
    return { status, ...body, error };
  });
  expect(known).toEqual(unknown);
  expect(known).toMatchObject({ status: 401, error: { code: "invalid_credentials" } });
});

test("an address can be registered once, however it is spelt", async () => {
  const name = randomUUID();
  const body = (email: string) => ({
    email,
    password: "correct horse battery",
    firstName: "A",
    lastName: "B",
  });
  expect((await api.post("/auth/register", body(`${name}@example.com`))).status).toBe(201);
  expect(await api.post("/auth/register", body(`${name.toUpperCase()}@EXAMPLE.com`))).toMatchObject({
    status: 409,
    body: { error: { code: "email_already_registered" } },
  });
});

test("the key set verifies our tokens, and shows no secret", async () => {
  const user = await api.newUser();
  const { body, headers } = await api.get("/.well-known/jwks.json");
  expect(headers.get("cache-control")).toMatch(/max-age=\d+/);
  const { createLocalJWKSet, jwtVerify } = await import("jose");
  const { payload, protectedHeader } = await jwtVerify(user.accessToken, createLocalJWKSet(body));
  expect(protectedHeader).toMatchObject({ alg: "EdDSA", typ: "at+jwt" });
  expect(payload).toMatchObject({
    iss: system.url,
    aud: system.url,
    sub: user.user.id,
    role: "USER",
    amr: ["pwd"],
    acr: "urn:gatehouse:acr:1",
  });
  for (const key of body.keys) expect(key).not.toHaveProperty("d");
});

test("the same paths are served as version 1", async () => {
  const { accessToken } = await api.newUser();
  expect((await api.get("/v1/auth/me", { token: accessToken })).status).toBe(200);
});

test("no answer and no log shows a password or a token", async () => {
  const canary = `secret ${randomUUID()}`;
  await api.post("/auth/login", { email: "canary@example.com", password: canary });
  const registered = await api.post("/auth/register", {
    email: "canary@example.com",
    password: canary,
    firstName: "C",
    lastName: "C",
  });
  expect(registered).toMatchObject({ status: 201 });
  const login = await api.post("/auth/login", { email: "canary@example.com", password: canary });
  expect(login).toMatchObject({ status: 200 });
  const { accessToken, refreshToken } = login.body.data;
  await api.post("/auth/refresh", { refreshToken: `${refreshToken}x` });
  await api.post("/auth/refresh", { refreshToken });
  await api.get("/auth/me", { token: `${accessToken}x` });
  await api.post("/auth/logout", undefined, { token: accessToken });

  const names = [
    "gateway",
    "identity-service",
    "token-service",
    "audit-service",
    "payments-service",
    "postgres",
  ];
  const logs = (await Promise.all(names.map((name) => readLog(system, name)))).join("\n");
  expect(logs).toMatch(/gateway/);
  await using database = await databaseOfSystem(system, "audit");
  const audit = JSON.stringify(await database.sql`select * from log_entries`);
  for (const secret of [canary, accessToken.split(".")[2], refreshToken.split(".")[2]]) {
    expect(logs.includes(secret)).toBe(false);
    expect(audit.includes(secret)).toBe(false);
  }
});
