/**
 * Whether the time of a refused login shows why it was refused: interleaved samples of each class against a wrong
 * password. AUC is the chance that a sample of the class took longer than one of a wrong password: 0.50 shows nothing.
 *
 * With `imported`, every second account has a bcrypt hash of another system, and as many unknown addresses cost as much.
 *
 *   npm run trial -- login-timing [samples] [imported]
 */
import { logIn } from "#identity-service/login/log-in.ts";
import { sampleUsedCosts } from "#identity-service/passwords/used-cost-store.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { identityDeps, plantUsers } from "./support/identity.ts";
import { printTimes, sampleClasses } from "./support/times.ts";
import { startWorkbench } from "./support/workbench.ts";

const SAMPLES = Number(process.argv[2] ?? 2_000);
const CLASSES = ["wrong password", "unknown", "disabled", "locked"] as const;
/** Hashed with cost 8. */
const FOREIGN_HASH = `$2b$08$${".".repeat(53)}`;
type Class = (typeof CLASSES)[number];

const workbench = await startWorkbench();
const sql = await workbench.connect("identity-service");
const deps = await identityDeps(sql, 1);
const isImported = process.argv[3] === "imported";
const hash = await deps.passwords.hash("correct horse battery", Date.now() + 60_000);
/** An account for each sample: only those of the class `locked` have failures behind them. */
const emailOf = (name: Class, index: number) => `${name.replace(" ", "-")}-${index}@example.com`;
const planted = CLASSES.filter((name) => name !== "unknown").flatMap((name) =>
  Array.from({ length: SAMPLES }, (_, index) => ({
    email: emailOf(name, index),
    status: name === "disabled" ? "disabled" : "active",
  })),
);
const ours = planted.filter((_, index) => !isImported || index % 2 === 0);
const foreign = planted.filter((_, index) => isImported && index % 2 === 1);
for (const [users, passwordHash] of [[ours, hash] as const, [foreign, FOREIGN_HASH] as const]) {
  for (let from = 0; from < users.length; from += 1_000) {
    await plantUsers(sql, users.slice(from, from + 1_000), passwordHash);
  }
}
deps.passwords.useCosts(await sampleUsedCosts(sql));
for (let index = 0; index < SAMPLES; index += 1) {
  for (let failure = 0; failure < 5; failure += 1) {
    await deps.throttle.take({ account: emailOf("locked", index), clientIp: "198.51.100.1" });
  }
}

async function sample(name: Class, index: number): Promise<number> {
  const from = { clientIp: "192.0.2.1", userAgent: "bench", deviceToken: "" };
  const attempt = { email: emailOf(name, index), password: "not the password", ...from };
  const context = newCallContext({ budgetMs: 60_000 });
  const startedMs = performance.now();
  await logIn(deps, attempt, context).then(
    () => Promise.reject(new Error("let in")),
    () => undefined,
  );
  return performance.now() - startedMs;
}

const times = await sampleClasses(CLASSES, SAMPLES, sample);
printTimes(times, "wrong password");
await sql.end();
await workbench.stop();
