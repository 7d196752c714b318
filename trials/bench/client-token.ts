import { generateKeyPairSync, randomUUID, sign, verify } from "node:crypto";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { pino } from "pino";
import { addCredential } from "#identity-service/clients/add-credential.ts";
import { createApiKeyIds, verifyApiKey } from "#identity-service/clients/api-keys.ts";
import type { ClientProof } from "#identity-service/clients/authenticate-client.ts";
import { createClient } from "#identity-service/clients/create-client.ts";
import type { CredentialKind } from "#identity-service/clients/credential-store.ts";
import { grantClientToken } from "#identity-service/clients/grant-client-token.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { createTestCertificates } from "#tests/support/system/certificates.ts";
import { startTokenServer } from "#tests/support/system/token-server.ts";
import { startTokenReplica } from "#tests/support/system/token-service.ts";
import { TokenVerifier } from "#token-client/token-verifier.ts";
import { issueClientToken } from "#token-service/tokens/issue-client-token.ts";
import { identityDeps, plantUsers } from "./support/identity.ts";
import { quantile, runMany, startCpu, startWorkbench } from "./support/workbench.ts";

/**
 * CPU of a client's token request, by secret and by key, against one Ed25519 verification and one signature in the same
 * run: the proof with its reads and writes, and the token, without the network between the services. Then an API key: at
 * its first sight (three processes' work in one, over mutual TLS), and from memory.
 *
 *   npm run trial -- client-token
 */

const CALLS = 1_000;
const API_KEYS = 200;
const KNOWN_CALLS = 100_000;
const IN_PARALLEL = 8;
const ROUNDS = Number(process.env.ROUNDS ?? 7);
const ISSUER = "https://gatehouse.example";
const PERMISSIONS = ["payments:read"];

const workbench = await startWorkbench();
const certificates = await createTestCertificates();
const sql = await workbench.connect("identity-service");
const apiKeyIds = createApiKeyIds(sql);
const replica = await startTokenReplica(await workbench.connect("token-service"));
replica.deps.askForApiKey = async (text) => {
  const live = await verifyApiKey({ sql, apiKeyIds, now: () => new Date() }, text);
  if (live === undefined) return undefined;
  const { clientId, id: credentialId, keyId: publicId, permissions: scopes, provenAt } = live;
  return { clientId, credentialId, publicId, scopes, provenAt };
};
const server = await startTokenServer(replica, certificates);
const deps = {
  ...(await identityDeps(sql, 1)),
  apiKeyIds,
  tokenIssuer: ISSUER,
  // No limit is measured here.
  clientLimits: { begin: () => ({ succeeded: () => undefined, giveBack: () => undefined }) },
  tokenService: {
    issueClientToken: async (client: Parameters<typeof issueClientToken>[1]) =>
      issueClientToken(replica.deps, client),
    revokeClientTokens: async () => undefined,
  },
};
const context = () => ({
  ...newCallContext({ budgetMs: 60_000 }),
  actor: { userId: randomUUID(), role: "ADMIN", sessionId: randomUUID() },
});
const hash = await deps.passwords.hash("correct horse battery", Date.now() + 60_000);
await plantUsers(sql, [{ email: "owner@example.com", status: "active" }], hash);
const [owner] = await sql<{ id: string }[]>`select id from users`;
const newClient = () =>
  createClient(deps, { name: "Shop", ownerId: owner?.id ?? "", permissions: PERMISSIONS }, context());
const add = (clientId: string, kind: CredentialKind, publicJwkJson = "") =>
  addCredential(deps, { clientId, kind, name: "", publicJwkJson }, context());

const client = await newClient();
const { secret } = await add(client.id, "secret");
const pair = await generateKeyPair("EdDSA", { extractable: true });
const { credential } = await add(client.id, "public_key", JSON.stringify(await exportJWK(pair.publicKey)));
const bySecret: ClientProof = { kind: "secret", clientId: client.id, secret };

async function byKey(): Promise<ClientProof> {
  const now = Math.floor(Date.now() / 1_000);
  const claims = { iss: client.id, sub: client.id, aud: ISSUER, jti: randomUUID(), iat: now, exp: now + 60 };
  const assertion = await new SignJWT(claims)
    .setProtectedHeader({ alg: "EdDSA", kid: credential.keyId })
    .sign(pair.privateKey);
  return { kind: "assertion", assertion };
}

const { privateKey, publicKey } = generateKeyPairSync("ed25519");
const message = Buffer.alloc(300, 7);
const signature = sign(null, message, privateKey);
async function bare(): Promise<void> {
  if (!verify(null, message, publicKey, signature)) throw new Error("no match");
  sign(null, message, privateKey);
}
const request = (proof: ClientProof) =>
  grantClientToken(deps, { proof, clientIp: "192.0.2.1", scope: "", confirmation: undefined }, context());

const cpuUs = { bare: [] as number[], secret: [] as number[], key: [] as number[] };
const perSecond = { bare: [] as number[], secret: [] as number[], key: [] as number[] };
for (let round = -1; round < ROUNDS; round += 1) {
  const assertions = await Promise.all(Array.from({ length: CALLS }, byKey));
  for (const [name, work] of [
    ["bare", bare],
    ["secret", () => request(bySecret)],
    ["key", (number: number) => request(assertions[number - 1] as ClientProof)],
  ] as const) {
    const cpu = startCpu();
    const seconds = await runMany(CALLS, IN_PARALLEL, work);
    if (round < 0) continue; // the first round warms up
    cpuUs[name].push(cpu() / CALLS);
    perSecond[name].push(CALLS / seconds);
  }
}
const median = (values: readonly number[]) => quantile(values, 0.5);
console.log(`one Ed25519 verification and one signature: ${median(cpuUs.bare).toFixed(0)} µs of CPU`);
for (const name of ["secret", "key"] as const) {
  const ratio = median(cpuUs[name].map((value, index) => value / (cpuUs.bare[index] ?? Number.NaN)));
  console.log(
    `token by ${name}: ${median(cpuUs[name]).toFixed(0)} µs of CPU without PostgreSQL's (${ratio.toFixed(1)} times), ` +
      `${median(perSecond[name]).toFixed(0)}/s`,
  );
}

const verifier = new TokenVerifier({
  address: server.address,
  certificate: certificates.of("gateway"),
  logger: pino({ level: "silent" }),
  metrics: createMetrics("bench"),
});
const keys: string[] = [];
for (let index = 0; index < API_KEYS / 2; index += 1) {
  const { id } = await newClient();
  for (const _ of [0, 1]) keys.push((await add(id, "api_key")).secret);
}
const firstCpu = startCpu();
const firstS = await runMany(API_KEYS, IN_PARALLEL, async (number) => {
  const verdict = await verifier.verify(keys[number - 1] as string, undefined);
  if (verdict.kind !== "active") throw new Error(`an API key is ${verdict.kind}`);
});
console.log(
  `an API key at first sight: ${(firstCpu() / API_KEYS).toFixed(0)} µs of CPU in all processes but PostgreSQL, ` +
    `${(API_KEYS / firstS).toFixed(0)}/s`,
);
const knownUs: number[] = [];
for (let round = 0; round < ROUNDS; round += 1) {
  // A request brings its key as a new string each time: its hash is not cached.
  const texts = keys.map((key) => Buffer.from(key));
  const cpu = startCpu();
  for (let index = 0; index < KNOWN_CALLS; index += 1) {
    const verdict = verifier.verify((texts[index % API_KEYS] as Buffer).toString("latin1"), undefined);
    if (verdict instanceof Promise || verdict.kind !== "active") throw new Error("not answered from memory");
  }
  knownUs.push(cpu() / KNOWN_CALLS);
  await new Promise((resolve) => setTimeout(resolve, 600)); // a heartbeat
}
console.log(`later: ${median(knownUs).toFixed(2)} µs`);
verifier.close();
await server.stop();
replica.stop();
await replica.deps.sql.end();
await sql.end();
await workbench.stop();
await certificates.remove();
