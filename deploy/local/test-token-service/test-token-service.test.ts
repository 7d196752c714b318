import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { existsSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createVerifier, type TokenVerifier } from "#clients/node/index.ts";
import { BARE_ENVIRONMENT } from "#tests/support/system/system.ts";

const CLI = resolve(import.meta.dirname, "..", "..", "..", "cli", "main.ts");
const ADA = { userId: randomUUID(), role: "USER" };
const SHOP = { clientId: randomUUID(), scopes: ["payments:read", "payments:write"] };

let child: ChildProcessWithoutNullStreams;
let lines: AsyncIterator<string>;
let settings: Record<string, string>;
const verifiers: TokenVerifier[] = [];

function start(environment: Record<string, string> = {}): ChildProcessWithoutNullStreams {
  const env = { ...BARE_ENVIRONMENT, ...environment };
  return spawn(process.execPath, [CLI, "test-token-service"], { env });
}

async function nextLine(): Promise<Record<string, string>> {
  const { value } = await lines.next();
  return JSON.parse(value);
}

beforeAll(async () => {
  child = start();
  lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  settings = await nextLine();
});

afterAll(() => {
  for (const verifier of verifiers) verifier.close();
  child.kill("SIGKILL");
});

/** The settings of a service, as it reads them from its environment. */
function verifierOf(options: { audience?: string } = {}): TokenVerifier {
  const { TOKEN_SERVICE_ADDRESS: address = "", TLS_CERT_FILE: certFile = "" } = settings;
  const { TLS_KEY_FILE: keyFile = "", TLS_CA_FILE: caFile = "" } = settings;
  const verifier = createVerifier({ address, tls: { certFile, keyFile, caFile }, ...options });
  verifiers.push(verifier);
  return verifier;
}

function order(what: object): Promise<Record<string, string>> {
  child.stdin.write(`${JSON.stringify(what)}\n`);
  return nextLine();
}

async function issue(principal: object): Promise<string> {
  const answer = await order({ issue: principal });
  expect(answer).not.toHaveProperty("error");
  return answer.token ?? "";
}

const reasonOf = async (verifier: TokenVerifier, token: string) => {
  const answer = await verifier.verify(token, undefined);
  return answer.kind === "active" ? "active" : answer.reason;
};

test("a verifier accepts what a test has ordered, with the principal that was asked for", async () => {
  const verifier = verifierOf();
  const authTime = new Date("2026-01-02T03:04:05Z");
  const sessionId = randomUUID();
  const user = await issue({ ...ADA, acr: 2, authTime: authTime.toISOString(), sessionId });
  expect(await verifier.verify(user, undefined)).toMatchObject({
    kind: "active",
    principal: { kind: "user", ...ADA, acr: 2, amr: ["pwd", "otp", "mfa"], authTime, sessionId },
  });
  expect(await verifier.verify(await issue(SHOP), undefined)).toMatchObject({
    kind: "active",
    principal: { kind: "client", ...SHOP, userId: "", role: "" },
  });
});

test("a token for an audience is for it alone, and one whose time is over has expired", async () => {
  const [own, ledger] = [verifierOf(), verifierOf({ audience: "ledger" })];
  const token = await issue({ ...ADA, audience: "ledger" });
  expect([await reasonOf(ledger, token), await reasonOf(own, token)]).toEqual(["active", "invalid"]);
  expect(await reasonOf(ledger, await issue(ADA))).toBe("invalid");
  const past = new Date(Date.now() - 60_000).toISOString();
  expect(await reasonOf(own, await issue({ ...ADA, expiresAt: past }))).toBe("expired");
});

test("revocations by token, session and user reach a verifier that knows the token, and end nothing else", async () => {
  const verifier = verifierOf();
  const [sessionId, userId] = [randomUUID(), randomUUID()];
  const [phone, laptop] = [await issue({ ...ADA, sessionId }), await issue(ADA)];
  const [key, otherKey] = [await issue(SHOP), await issue(SHOP)];
  const others = [await issue({ ...ADA, userId }), await issue({ ...ADA, userId })];
  for (const token of [phone, laptop, key, otherKey, ...others])
    expect(await reasonOf(verifier, token)).toBe("active");

  await order({ revoke: { sessionId } });
  await expect.poll(() => reasonOf(verifier, phone)).toBe("revoked");
  await order({ revoke: { token: key } });
  await expect.poll(() => reasonOf(verifier, key)).toBe("revoked");
  await order({ revoke: { userId } });
  for (const token of others) await expect.poll(() => reasonOf(verifier, token)).toBe("revoked");
  for (const token of [laptop, otherKey]) expect(await reasonOf(verifier, token)).toBe("active");

  await order({ revoke: { everything: true } });
  for (const token of [laptop, otherKey]) await expect.poll(() => reasonOf(verifier, token)).toBe("revoked");
  expect(await reasonOf(verifier, await issue(ADA))).toBe("active");
  expect(await reasonOf(verifierOf(), laptop)).not.toBe("active");
});

test("an outage is one to a verifier, and ends at the same address", async () => {
  const verifier = verifierOf();
  const token = await issue(ADA);
  await order({ available: false });
  await expect(verifier.verify(token, undefined)).rejects.toThrow(
    expect.objectContaining({ code: "service_unavailable" }),
  );
  await order({ available: true });
  await expect.poll(() => reasonOf(verifier, token).catch(() => "away")).toBe("active");
});

test.each([
  [{ issue: { ...ADA, userId: "ada" } }, "must be a UUID"],
  [{ issue: { ...ADA, role: "not a role" } }, "must be a role's name"],
  [{ issue: { ...ADA, scopes: ["all"] } }, "Unrecognized key"],
  [{ issue: { ...SHOP, scopes: [] } }, "scopes"],
  [{ issue: { ...ADA, expiresAt: "2999-01-01T00:00:00Z" } }, "3600 s ahead"],
  [{ issue: { ...ADA, audience: "http://tests.gatehouse.invalid" } }, "Gatehouse itself"],
  [{ revoke: { token: "no token" } }, "has not issued"],
  [{ revoke: {} }, "Invalid input"],
  [{ available: "no" }, "Invalid input"],
])("%j is refused", async (what, problem) => {
  expect(await order(what)).toEqual({ error: expect.stringContaining(problem) });
});

test("a line that is no JSON is answered too, and nothing stays behind after the last line", async () => {
  child.stdin.write("issue\n");
  expect(await nextLine()).toEqual({ error: expect.stringContaining("JSON") });
  const { TLS_CA_FILE = "", TOKEN_SERVICE_ADDRESS } = settings;
  expect(TOKEN_SERVICE_ADDRESS).toMatch(/^127\.0\.0\.1:\d+$/);
  const folder = dirname(TLS_CA_FILE);
  expect(statSync(folder).mode & 0o777).toBe(0o700);
  child.stdin.end();
  const [code] = await once(child, "exit");
  expect([code, existsSync(folder)]).toEqual([0, false]);
});

test("it does not start where NODE_ENV is production", async () => {
  const refused = start({ NODE_ENV: "production" });
  const [code] = await once(refused, "exit");
  expect(code).toBe(78);
});
