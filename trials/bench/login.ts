/**
 * Logins a second and CPU time of one, against the bare argon2id verification with the same parameters and the same
 * number at once, in the same run. A login: throttle, account, verification, session (a token-service that costs
 * nothing), device.
 *
 *   npm run trial -- login
 */
import * as argon2 from "@node-rs/argon2";
import { logIn } from "#identity-service/login/log-in.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { FLOOR, identityDeps, plantUsers } from "./support/identity.ts";
import { quantile, runMany, startCpu, startWorkbench } from "./support/workbench.ts";

const USERS = 50;
const LOGINS = 200;
const IN_PARALLEL = 2;
const ROUNDS = 5;
const PASSWORD = "correct horse battery";

const workbench = await startWorkbench();
const sql = await workbench.connect("identity-service");
const deps = await identityDeps(sql, IN_PARALLEL);
const hash = await deps.passwords.hash(PASSWORD, Date.now() + 60_000);
const emailOf = (index: number) => `user${index % USERS}@example.com`;
await plantUsers(
  sql,
  Array.from({ length: USERS }, (_, index) => ({ email: emailOf(index), status: "active" })),
  hash,
);
const devices = new Map<string, string>();

async function logInOnce(index: number): Promise<void> {
  const email = emailOf(index);
  const from = { clientIp: "192.0.2.1", userAgent: "bench", deviceToken: devices.get(email) ?? "" };
  const attempt = { email, password: PASSWORD, ...from };
  const result = await logIn(deps, attempt, newCallContext({ budgetMs: 60_000 }));
  if (result.kind !== "completed") throw new Error("a second factor");
  devices.set(email, result.deviceToken);
}

async function bare(): Promise<void> {
  if (!(await argon2.verify(hash, PASSWORD))) throw new Error("no match");
}

const rates = { login: [] as number[], bare: [] as number[] };
const cpuUs = { login: [] as number[], bare: [] as number[] };
for (let round = -1; round < ROUNDS; round += 1) {
  for (const [name, work] of [
    ["bare", bare],
    ["login", logInOnce],
  ] as const) {
    const cpu = startCpu();
    const seconds = await runMany(LOGINS, IN_PARALLEL, work);
    const spent = cpu();
    if (round < 0) continue;
    rates[name].push(LOGINS / seconds);
    cpuUs[name].push(spent / LOGINS);
  }
}
const median = (values: readonly number[]) => quantile(values, 0.5);
console.log(
  `argon2id m=${FLOOR.memoryKib} KiB t=${FLOOR.iterations} p=${FLOOR.parallelism}, ${IN_PARALLEL} at once`,
);
console.log(
  `bare verification: ${median(rates.bare).toFixed(0)}/s, ${median(cpuUs.bare).toFixed(0)} µs of CPU each`,
);
console.log(`login: ${median(rates.login).toFixed(0)}/s, ${median(cpuUs.login).toFixed(0)} µs of CPU each`);
const ratios = cpuUs.login.map((value, index) => value / (cpuUs.bare[index] ?? Number.NaN));
console.log(`CPU, ratio, median of ${ROUNDS} rounds: ${median(ratios).toFixed(2)} (aim: at most 1.15)`);
await sql.end();
await workbench.stop();
