import { createHash, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { dpopClient } from "#tests/support/people/dpop-client.ts";
import { createTestCertificates, type TestCertificates } from "#tests/support/system/certificates.ts";
import type { Verification } from "#token-client/principal.ts";
import { principalWith, send, testGateway, USER_ID, verifierOfUsers } from "../../testing/test-gateway.ts";
import { UsedProofs } from "../proofs/used-proofs.ts";

let certificates: TestCertificates;
let ours: X509Certificate;
let others: X509Certificate;
beforeAll(async () => {
  certificates = await createTestCertificates();
  const read = (name: "gateway" | "envoy") =>
    new X509Certificate(readFileSync(certificates.environmentOf(name).TLS_CERT_FILE));
  [ours, others] = [read("gateway"), read("envoy")];
});
afterAll(() => certificates.remove());

const headerOf = ({ raw }: X509Certificate) => `:${raw.toString("base64")}:`;
const thumbprintOf = ({ raw }: X509Certificate) => createHash("sha256").update(raw).digest("base64url");

function gateway(isTrusted: boolean, parts: Parameters<typeof testGateway>[0] = {}) {
  const confirmation = { jkt: "", x5tS256: thumbprintOf(ours) };
  const principal = { ...principalWith("USER"), confirmation };
  const verdicts = new Map<string, Verification>([["bound", { kind: "active", principal }]]);
  const sessions = { listSessions: async () => ({ sessions: [] }) };
  const identity = { listTrustedDevices: async () => ({ trustedDevices: [] }) };
  const verifier = verifierOfUsers(verdicts);
  return testGateway({ verifier, sessions, identity, isTrustedProxy: () => isTrusted, ...parts }).app;
}
const call = (app: ReturnType<typeof gateway>, header: string | undefined, token = "bound") =>
  send(app, { url: "/auth/sessions", token, headers: header === undefined ? {} : { "client-cert": header } });

test("a token of a certificate passes with that certificate, again and again", async () => {
  const app = gateway(true);
  for (let times = 0; times < 3; times += 1) expect((await call(app, headerOf(ours))).statusCode).toBe(200);
  expect((await call(app, headerOf(others))).statusCode).toBe(401);
  expect((await call(app, headerOf(ours))).statusCode).toBe(200);
});

test("without the certificate, and with another, it is 401 as RFC 8705 says", async () => {
  for (const header of [undefined, headerOf(others)]) {
    const answer = await call(gateway(true), header);
    expect([answer.statusCode, answer.json().error.code]).toEqual([401, "token_invalid"]);
    expect(answer.headers["www-authenticate"]).toMatch(/^Bearer error="invalid_token"/);
  }
});

test("the header of a peer that is no trusted proxy proves nothing, and disturbs no other call", async () => {
  const app = gateway(false);
  expect((await call(app, headerOf(ours))).statusCode).toBe(401);
  for (const header of [headerOf(ours), "nonsense"])
    expect((await call(app, header, "a-bearer-token")).statusCode).toBe(200);
});

test("a token of a certificate is no token of a DPoP key", async () => {
  const headers = { authorization: "DPoP bound", "client-cert": headerOf(ours) };
  const answer = await send(gateway(true), { url: "/auth/sessions", headers });
  expect(answer.json().error.code).toBe("token_proof_invalid");
});

test("what a trusted proxy sends must be one certificate, in its one writing", async () => {
  const base64 = ours.raw.toString("base64");
  const refused = [
    base64,
    `:${base64}`,
    `:${base64.replace(/=+$/, "")}:`,
    `:${Buffer.concat([ours.raw, Buffer.of(0)]).toString("base64")}:`,
    `:${ours.raw.subarray(0, -1).toString("base64")}:`,
    `:${Buffer.from(ours.toString()).toString("base64")}:`,
    `${headerOf(ours)}, ${headerOf(others)}`,
    `${headerOf(ours)};a=b`,
    ":AAAA:",
    "::",
    "",
    `:${"A".repeat(8_192)}:`,
  ].filter((header) => header !== headerOf(ours));
  for (const header of refused) {
    const answer = await call(gateway(true), header);
    expect([header.slice(0, 8), answer.statusCode, answer.json().error.code]).toEqual([
      header.slice(0, 8),
      400,
      "bad_request",
    ]);
  }
});

async function tokenFor(isTrusted: boolean, bindsToCertificates: boolean, withProof = false) {
  const asked: unknown[] = [];
  const usedProofs = new UsedProofs({ redis: undefined, nowMs: () => 0, wallMs: () => Date.now() });
  const granted = { clientId: USER_ID, credentialId: USER_ID, accessToken: "e30.e30.e30", expiresInS: 900 };
  const clients = {
    grantClientToken: async ({ confirmation }: { confirmation: unknown }) => {
      asked.push(confirmation);
      return { ...granted, scope: "payments:read" };
    },
  };
  const app = gateway(isTrusted, { clients, bindsToCertificates, usedProofs });
  const { jkt, proof } = await dpopClient();
  const dpop = withProof && { dpop: await proof({ url: "/oauth/token", nonce: usedProofs.nonce }) };
  const { body, statusCode } = await send(app, {
    method: "POST",
    url: "/oauth/token",
    body: "grant_type=client_credentials",
    headers: {
      authorization: "Basic YTpi",
      "content-type": "application/x-www-form-urlencoded",
      "client-cert": headerOf(ours),
      ...dpop,
    },
  });
  expect(statusCode).toBe(200);
  return { jkt, confirmation: asked[0], type: JSON.parse(body).token_type };
}

test("a program's token is bound to its certificate where the operator says so and a trusted proxy passes it on", async () => {
  const proven = { confirmation: { jkt: "", x5tS256: thumbprintOf(ours) }, type: "Bearer" };
  expect(await tokenFor(true, true)).toMatchObject(proven);
  expect((await tokenFor(true, false)).confirmation).toBeUndefined();
  expect((await tokenFor(false, true)).confirmation).toBeUndefined();
});

test("with a proof and a certificate, both are reported, and the answer goes by the key", async () => {
  const { jkt, confirmation, type } = await tokenFor(true, true, true);
  expect(confirmation).toEqual({ jkt, x5tS256: thumbprintOf(ours) });
  expect(type).toBe("DPoP");
});
