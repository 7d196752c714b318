import { createPublicKey, sign, verify } from "node:crypto";
import { beginPasskeyLogin, logInWithPasskey } from "#identity-service/login/log-in-with-passkey.ts";
import { TestAuthenticator } from "#identity-service/passkeys/authenticator.fixture.ts";
import { beginPasskeyRegistration, registerPasskey } from "#identity-service/passkeys/register-passkey.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { identityDeps, plantUsers } from "./support/identity.ts";
import { quantile, runMany, startCpu, startWorkbench } from "./support/workbench.ts";

/**
 * CPU time of a login with a passkey (without its options) against one bare verification of an ES256 signature, in the
 * same run. A login: challenge, account, signature, counter, session (a token-service that costs nothing), device.
 *
 *   npm run trial -- passkey-login
 */

const LOGINS = 200;
const IN_PARALLEL = 2;
const ROUNDS = 5;
const FROM = { clientIp: "192.0.2.1", userAgent: "bench" };
const SESSION = "019a0000-0000-7000-8000-00000000000a";

const workbench = await startWorkbench();
const sql = await workbench.connect("identity-service");
const deps = await identityDeps(sql, IN_PARALLEL);
const context = () => newCallContext({ budgetMs: 60_000 });

const authenticators: TestAuthenticator[] = [];
await plantUsers(
  sql,
  Array.from({ length: IN_PARALLEL }, (_, index) => ({
    email: `user${index}@example.com`,
    status: "active",
  })),
  await deps.passwords.hash("correct horse battery", Date.now() + 60_000),
);
const provenAt = new Date();
await sql`update users set credentials_proven_email = email, credentials_proven_at = ${provenAt}`;
for (const { id: userId } of await sql<{ id: string }[]>`select id from users`) {
  const owner = { userId, sessionId: SESSION, acr: 1 as const, authTime: new Date(), ...FROM };
  const authenticator = new TestAuthenticator();
  const attestation = authenticator.create(await beginPasskeyRegistration(deps, owner));
  await registerPasskey(deps, { owner, name: "bench", attestation }, context());
  authenticators.push(authenticator);
}

const devices: string[] = [];
async function newAttempt(index: number) {
  const place = index % IN_PARALLEL;
  const from = { ...FROM, deviceToken: devices[place] ?? "" };
  const { challengeToken, options } = await beginPasskeyLogin(deps, from);
  const assertion = (authenticators[place] as TestAuthenticator).get(options);
  return { place, attempt: { ...from, challengeToken, assertion } };
}

const key = (authenticators[0] as TestAuthenticator).privateKey;
const publicKey = createPublicKey(key);
const message = Buffer.alloc(69);
const signature = sign("sha256", message, key);
async function bare(): Promise<void> {
  if (!verify("sha256", message, publicKey, signature)) throw new Error("no match");
}

const cpuUs = { login: [] as number[], bare: [] as number[] };
for (let round = -1; round < ROUNDS; round += 1) {
  const attempts: Awaited<ReturnType<typeof newAttempt>>[] = [];
  for (let index = 0; index < LOGINS; index += 1) attempts.push(await newAttempt(index));
  const logIn = async (number: number) => {
    const { place, attempt } = attempts[number - 1] as (typeof attempts)[number];
    const result = await logInWithPasskey(deps, attempt, context());
    if (result.kind !== "completed") throw new Error(`not completed: ${result.kind}`);
    devices[place] = result.deviceToken;
  };
  for (const [name, work] of [
    ["bare", bare],
    ["login", logIn],
  ] as const) {
    const cpu = startCpu();
    await runMany(LOGINS, IN_PARALLEL, work);
    if (round >= 0) cpuUs[name].push(cpu() / LOGINS);
  }
}
const median = (values: readonly number[]) => quantile(values, 0.5);
console.log(`bare verification: ${median(cpuUs.bare).toFixed(0)} µs of CPU`);
console.log(`login with a passkey: ${median(cpuUs.login).toFixed(0)} µs of CPU, without PostgreSQL's`);
const ratios = cpuUs.login.map((value, index) => value / (cpuUs.bare[index] ?? Number.NaN));
console.log(`ratio, median of ${ROUNDS} rounds: ${median(ratios).toFixed(1)}`);
await sql.end();
await workbench.stop();
