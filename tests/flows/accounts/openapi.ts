import { randomUUID } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { accountTour } from "#clients/examples/typescript-client/account-tour.ts";
import type { OpenApiDocument } from "#gateway/openapi/openapi-document.ts";
import { type ContractChecker, contractChecker } from "../../support/house/openapi-answers.ts";
import { patientFetch } from "../../support/people/api-client.ts";
import { verificationToken } from "../../support/people/verified-user.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { ADMIN, type System } from "../../support/system/system.ts";

let system: System;
let document: OpenApiDocument;
let checker: ContractChecker;

beforeAll(async () => {
  system = oneSystem();
  document = (await (await fetch(`${system.url}/openapi.json`)).json()) as OpenApiDocument;
  checker = contractChecker(document);
});

interface Sent {
  token?: string;
  body?: unknown;
  /** For the parameter of a path. */
  id?: string;
  query?: string;
}

/** Calls an operation by its name in the document, and holds the answer to the document. */
async function call(operationId: string, { token, body, id = "", query = "" }: Sent = {}) {
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      if (operation.operationId !== operationId) continue;
      const response = await patientFetch(system.url + path.replace(/\{\w+\}/, id) + query, {
        method: method.toUpperCase(),
        headers: {
          ...(token && { authorization: `Bearer ${token}` }),
          ...(body !== undefined && { "content-type": "application/json" }),
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        redirect: "manual",
      });
      const text = await response.text();
      const contentType = response.headers.get("content-type") ?? undefined;
      const answer = { status: response.status, contentType, body: text };
      expect(checker.problemOf(method, path, answer)).toBeUndefined();
      return { status: response.status, body: contentType?.includes("json") ? JSON.parse(text) : text };
    }
  }
  throw new Error(`the document has no ${operationId}`);
}

const person = () => ({
  email: `ada.${randomUUID()}@example.com`,
  password: "Correct-Horse-42",
  firstName: "Ada",
  lastName: "Lovelace",
});

test("the generated client registers, logs in, asks who it is, refreshes and logs out", async () => {
  const newUser = person();
  const { user, afterwards } = await accountTour(system.url, newUser, patientFetch);
  expect(user).toMatchObject({ email: newUser.email, firstName: "Ada", role: "USER" });
  expect(afterwards).toBe("token_invalid");
  await expect(accountTour(system.url, newUser, patientFetch)).rejects.toMatchObject({
    status: 409,
    code: "email_already_registered",
  });
});

/** Without it no second factor can be set up, and no provider linked. */
async function proveAddress(email: string, password: string): Promise<void> {
  const token = await verificationToken(system, email);
  expect((await call("verifyEmail", { body: { token, password } })).status).toBe(200);
}

test("what the real services answer is what the document says", async () => {
  const { email, password, ...names } = person();
  const registered = await call("register", { body: { email, password, ...names } });
  const user = registered.body.data.user;
  expect((await call("register", { body: { email: "x", password, ...names } })).status).toBe(400);
  expect((await call("logIn", { body: { email, password: "wrong" } })).status).toBe(401);
  const { accessToken: token, refreshToken } = (await call("logIn", { body: { email, password } })).body.data;
  await proveAddress(email, password);
  const wrong = { currentPassword: password, newPassword: "short" };
  const statuses = {
    getAccount: (await call("getAccount", { token })).status,
    updateAccount: (await call("updateAccount", { token, body: { firstName: "Augusta" } })).status,
    listSessions: (await call("listSessions", { token })).status,
    endSession: (await call("endSession", { token, id: randomUUID() })).status,
    setUpMfa: (await call("setUpMfa", { token, body: { password } })).status,
    enableMfa: (await call("enableMfa", { token, body: { code: "000000" } })).status,
    changePassword: (await call("changePassword", { token, body: wrong })).status,
    forgotPassword: (await call("forgotPassword", { body: { email } })).status,
    verifyEmail: (await call("verifyEmail", { body: { token: "no" } })).status,
    verifyEmailPage: (await call("verifyEmailPage", { query: "?token=no" })).status,
    refresh: (await call("refresh", { body: { refreshToken } })).status,
    listUsers: (await call("listUsers", { token })).status,
    getKeys: (await call("getKeys")).status,
    getDocumentationPage: (await call("getDocumentationPage")).status,
  };
  expect(statuses).toEqual({
    getAccount: 200,
    updateAccount: 200,
    listSessions: 200,
    endSession: 404,
    setUpMfa: 200,
    enableMfa: 401,
    changePassword: 400,
    forgotPassword: 200,
    verifyEmail: 400,
    verifyEmailPage: 200,
    refresh: 200,
    listUsers: 403,
    getKeys: 200,
    getDocumentationPage: 200,
  });

  const admin = (await call("logIn", { body: ADMIN })).body.data;
  const asAdmin = { token: admin.accessToken };
  expect((await call("listUsers", { ...asAdmin, query: "?limit=2" })).status).toBe(200);
  expect((await call("getUser", { ...asAdmin, id: user.id })).status).toBe(200);
  expect((await call("updateUser", { ...asAdmin, id: admin.user.id, body: { role: "USER" } })).status).toBe(
    403,
  );
  expect(
    (await call("updateUser", { ...asAdmin, id: user.id, body: { mustChangePassword: true } })).status,
  ).toBe(200);
  expect((await call("logIn", { body: { email, password } })).body.data.requirePasswordChange).toBe(true);
  const audit = await call("searchAuditLog", { ...asAdmin, query: "?limit=100" });
  const kinds = new Set(audit.body.data.entries.map(({ kind }: { kind: string }) => kind));
  expect([...kinds].sort()).toEqual(["event", "intent", "outcome"]);
});

test("what logins at providers and links answer is what the document says", async () => {
  const { email, password, ...names } = person();
  expect((await call("register", { body: { email, password, ...names } })).status).toBe(201);
  const { accessToken: token } = (await call("logIn", { body: { email, password } })).body.data;
  await proveAddress(email, password);
  const secret = "s".repeat(43);
  const statuses = {
    listProviders: (await call("listProviders")).status,
    beginOAuthLogin: (await call("beginOAuthLogin", { id: "demo" })).status,
    beginElsewhere: (await call("beginOAuthLogin", { id: "nobody" })).status,
    beginFrom: (await call("beginOAuthLogin", { id: "demo", query: "?returnTo=https://evil.test" })).status,
    completeOAuthLogin: (await call("completeOAuthLogin", { id: "demo", query: `?state=${secret}` })).status,
    receiveOAuthForm: (await call("receiveOAuthForm", { id: "demo", body: { state: secret } })).status,
    exchangeOAuthCode: (await call("exchangeOAuthCode", { body: { code: secret, codeVerifier: secret } }))
      .status,
    listIdentities: (await call("listIdentities", { token })).status,
    linkWithoutProof: (await call("linkIdentity", { token, id: "demo", body: {} })).status,
    linkIdentity: (await call("linkIdentity", { token, id: "demo", body: { password } })).status,
    unlinkIdentity: (await call("unlinkIdentity", { token, id: "demo", body: { password } })).status,
  };
  expect(statuses).toEqual({
    listProviders: 200,
    beginOAuthLogin: 302,
    beginElsewhere: 404,
    beginFrom: 400,
    completeOAuthLogin: 400,
    receiveOAuthForm: 303,
    exchangeOAuthCode: 400,
    listIdentities: 200,
    linkWithoutProof: 403,
    linkIdentity: 200,
    unlinkIdentity: 404,
  });
});

test("what proves the audit log is what the document says", async () => {
  const { accessToken: token } = (await call("logIn", { body: ADMIN })).body.data;
  const { entries } = (await call("searchAuditLog", { token, query: "?limit=1" })).body.data;
  const [{ id }] = entries;
  const proven = () => call("getAuditEntry", { token, id });
  await expect.poll(async () => (await proven()).body.data.proof).not.toBeNull();
  const { sequence } = (await proven()).body.data.entry;
  const size = Number((await call("getAuditCheckpoint", { token })).body.data.checkpoint.split("\n")[1]);
  const statuses = {
    proveAuditInclusion: (
      await call("proveAuditInclusion", { token, query: `?sequence=${sequence}&treeSize=${size}` })
    ).status,
    proveAuditConsistency: (await call("proveAuditConsistency", { token, query: `?from=1&to=${size}` }))
      .status,
    beyondTheLog: (
      await call("proveAuditConsistency", { token, query: `?from=1&to=${Number.MAX_SAFE_INTEGER}` })
    ).status,
    turnedAround: (await call("proveAuditConsistency", { token, query: `?from=${size}&to=1` })).status,
    missingEntry: (await call("getAuditEntry", { token, id: randomUUID() })).status,
  };
  expect(statuses).toEqual({
    proveAuditInclusion: 200,
    proveAuditConsistency: 200,
    beyondTheLog: 404,
    turnedAround: 400,
    missingEntry: 404,
  });
});
