import { forgotPassword, resendVerification } from "#identity-service/accounts/mail-a-link.ts";
import { register } from "#identity-service/accounts/register.ts";
import { createAfterAnswer } from "#identity-service/mail/after-answer.ts";
import { createLinkTokens } from "#identity-service/mail/links.ts";
import { commonPasswords } from "#identity-service/passwords/password-policy.ts";
import { identityDeps, plantUsers } from "./support/identity.ts";
import { printTimes, sampleClasses } from "./support/times.ts";
import { startWorkbench } from "./support/workbench.ts";

/**
 * Whether the time of an answer shows whether an address has an account: interleaved samples of each class for forgotten
 * passwords, resent verifications, and registrations with REGISTRATION_DISCLOSES=false. AUC as in login-timing.
 *
 *   npm run trial -- anonymous-timing
 */

const SAMPLES = Number(process.argv[2] ?? 2_000);
const CLIENT_IP = "192.0.2.1";

const workbench = await startWorkbench();
const sql = await workbench.connect("identity-service");
const base = await identityDeps(sql, 1);
const deps = {
  ...base,
  linkTokens: createLinkTokens(base.randomBytes(32), "https://gatehouse.example"),
  afterAnswer: createAfterAnswer({ maxPending: 1_000, logger: base.logger }),
  passwordPolicy: { minLength: 8, common: commonPasswords(8) },
  mailLimits: { strangersPerHour: 5, strangersPerDay: 10, resetsPerDay: 60 },
  registrationDiscloses: false,
  smtpUtf8: true,
};
const hash = await deps.passwords.hash("correct horse battery", Date.now() + 60_000);

/** An account for each sample: three mails an hour would make the later ones cheaper. */
async function plant(call: string, name: string, status: string): Promise<void> {
  const emails = Array.from({ length: SAMPLES }, (_, index) => emailOf(call, name, index));
  for (let from = 0; from < SAMPLES; from += 1_000) {
    const some = emails.slice(from, from + 1_000).map((email) => ({ email, status }));
    await plantUsers(sql, some, hash);
  }
}

function emailOf(call: string, name: string, index: number): string {
  return `${call}-${name}-${index}@example.com`;
}

/** The time of an answer; what it left to do is done before the next one is asked for. */
async function timeOf(call: Promise<unknown>, startedMs: number): Promise<number> {
  await call;
  const tookMs = performance.now() - startedMs;
  await deps.afterAnswer.drained();
  return tookMs;
}

const ASKED = { "forgot-password": forgotPassword, "resend-verification": resendVerification } as const;
for (const [call, ask] of Object.entries(ASKED)) {
  await plant(call, "known", "active");
  await plant(call, "disabled", "disabled");
  // A proven address gets no second verification mail.
  if (call === "resend-verification") await sql`update users set email_verified = false`;
  const times = await sampleClasses(["unknown", "known", "disabled"], SAMPLES, (name, index) => {
    const asked = { email: emailOf(call, name, index), clientIp: CLIENT_IP };
    const startedMs = performance.now();
    return timeOf(ask(deps, asked), startedMs);
  });
  console.log(`\n${call}`);
  printTimes(times, "unknown");
}

await plant("register", "taken", "active");
const times = await sampleClasses(["new", "taken"], SAMPLES, (name, index) => {
  const person = { password: "correct horse battery", firstName: "Ada", lastName: "Lovelace" };
  const email = emailOf("register", name, index);
  const startedMs = performance.now();
  const call = register(deps, { ...person, email, clientIp: CLIENT_IP }, Date.now() + 60_000);
  return timeOf(call, startedMs);
});
console.log("\nregistration, REGISTRATION_DISCLOSES=false");
printTimes(times, "new");
await sql.end();
await workbench.stop();
