import { randomInt } from "node:crypto";
import { generateSync } from "otplib";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { forgotPassword } from "../accounts/mail-a-link.ts";
import { resetPassword } from "../accounts/reset-password.ts";
import { askApproval } from "../approvals/ask-approval.ts";
import { verifyApproval } from "../approvals/verify-approval.ts";
import { beginTotpEnrollment } from "../mfa/begin-totp-enrollment.ts";
import { confirmTotpEnrollment } from "../mfa/confirm-totp-enrollment.ts";
import { disableTotp } from "../mfa/disable-totp.ts";
import { regenerateRecoveryCodes } from "../mfa/give-recovery-codes.ts";
import { beginStepUp } from "../step-up/begin-step-up.ts";
import { completeStepUp } from "../step-up/complete-step-up.ts";
import {
  ANNA,
  proveCredentials,
  sessionAt,
  soon,
  startWithAnna,
  type TestDeps,
} from "../testing/test-deps.ts";
import { readOutbox, tokensIn } from "../testing/test-mails.ts";
import { MemoryThrottle } from "../throttle/memory-throttle.ts";
import { throttleLimits } from "../throttle/throttle.ts";
import { completeMfaLogin } from "./complete-mfa-login.ts";
import { logIn } from "./log-in.ts";

const FROM = { clientIp: "192.0.2.1", userAgent: "Firefox/1 Windows" };
const SESSION = "019a0000-0000-7000-8000-00000000000a";
const NEW_PASSWORD = "Another-Horse-43";
const QUARTER_MS = 15 * 60_000;
const QUARTERS_A_DAY = 96;

let database: TestDatabase;
let deps: TestDeps;
let userId: string;
let nowMs: number;
let secret: string;
let recoveryCodes: string[];

beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
beforeEach(async () => {
  const started = await startWithAnna(database);
  nowMs = Date.parse("2031-01-02T00:04:05.678Z");
  const limits = throttleLimits({ network: 10_000, everything: 100_000 });
  const throttle = new MemoryThrottle({ limits, now: () => nowMs });
  deps = { ...started.deps, throttle, now: () => new Date(nowMs) };
  userId = started.userId;
  await proveCredentials(database.ownerSql, userId);
  ({ secret } = await beginTotpEnrollment(
    deps,
    { ...sessionAt(deps), userId, password: ANNA.password, ...FROM },
    soon(),
  ));
  const confirmation = { userId, sessionId: SESSION, code: validCodes()[0], ...FROM };
  ({ recoveryCodes } = await confirmTotpEnrollment(deps, { ...sessionAt(deps), ...confirmation }, context()));
  nowMs += 60_000;
});
afterAll(() => database.drop());

const context = () => ({ ...newCallContext({ budgetMs: 60_000 }), caller: "gateway" as const });
const validCodes = () =>
  [0, -30].map((shiftS) => generateSync({ secret, epoch: Math.floor(nowMs / 1_000) + shiftS })) as [
    string,
    string,
  ];
/** As a guesser types them, but never a right one. */
function guess(): string {
  const code = String(randomInt(1_000_000)).padStart(6, "0");
  return validCodes().includes(code) ? guess() : code;
}
const outcomeOf = (work: Promise<unknown>) =>
  work.then(
    () => "in",
    (error: unknown) => (error instanceof DomainError ? error.code : Promise.reject(error)),
  );

type WayIn = (code: string) => Promise<unknown>;

function loginOn(deviceToken: string, password = ANNA.password): WayIn {
  return async (code) => {
    const login = await logIn(deps, { email: ANNA.email, password, deviceToken, ...FROM }, context());
    if (login.kind !== "mfaChallenge") throw new Error(`no code is asked for: ${login.kind}`);
    const attempt = { tempToken: login.tempToken, code, deviceToken, ...FROM };
    const result = await completeMfaLogin(deps, attempt, context());
    if (result.kind !== "completed") throw new Error(`not logged in: ${result.kind}`);
    return result.deviceToken;
  };
}

const inSession = {
  "a step-up": async (code: string) => {
    const { stepUpToken } = await beginStepUp(deps, { userId, sessionId: SESSION, current: 1, wanted: 2 });
    const proof = { kind: "code", text: code } as const;
    return completeStepUp(deps, { userId, sessionId: SESSION, stepUpToken, proof, ...FROM }, context());
  },
  "an approval": async (code: string) => {
    const asked = { userId, sessionId: SESSION, transaction: "{}", acr: 2, ttlS: 300, ...FROM } as const;
    const { token } = await askApproval(deps, asked, context());
    return verifyApproval(deps, { userId, sessionId: SESSION, token, code, ...FROM }, context());
  },
  "new recovery codes": (code: string) =>
    regenerateRecoveryCodes(deps, { ...sessionAt(deps), userId, code, ...FROM }, context()),
  "turning it off": (code: string) => {
    const proof = { userId, sessionId: SESSION, password: ANNA.password, code, ...FROM };
    return disableTotp(deps, { ...sessionAt(deps), ...proof }, context());
  },
} satisfies Record<string, WayIn>;

/** Guesses on one way until it is refused. Returns how many guesses were checked. */
async function spend(way: WayIn): Promise<number> {
  for (let checked = 0; ; checked += 1) {
    const outcome = await outcomeOf(way(guess()));
    if (outcome === "mfa_code_invalid") continue;
    expect(outcome).toBe("too_many_requests");
    return checked;
  }
}

async function guessForADay(ways: readonly WayIn[]): Promise<number> {
  let checked = 0;
  for (let quarter = 0; quarter < QUARTERS_A_DAY; quarter += 1) {
    for (const way of ways) checked += await spend(way);
    nowMs += QUARTER_MS;
  }
  return checked;
}

test("who has password, known device and session guesses for a day on every way in: below 1e-4, and the owner recovers", {
  tags: "exhaustive",
}, async () => {
  const known = (await loginOn("")(validCodes()[0])) as string;
  nowMs += 60_000;
  const ways = [loginOn(""), loginOn(known), ...Object.values(inSession)];
  const checked = await guessForADay(ways);
  expect(checked).toBe(40);
  // Two codes of a million are right at any time (the present step and the one before).
  expect((checked * 2) / 1_000_000).toBeLessThan(1e-4);

  // While guesses go on, each recovery code of the owner works wherever a code is asked for.
  for (const way of ways) await spend(way);
  const recovering = [loginOn(""), loginOn(known), inSession["a step-up"], inSession["an approval"]];
  for (const way of recovering) expect(await outcomeOf(way(recoveryCodes.pop() ?? ""))).toBe("in");

  // The reset by mail gives the codes of the app back.
  nowMs += 1_000;
  await forgotPassword(deps, { email: ANNA.email });
  await deps.afterAnswer.drained();
  const [token = ""] = await tokensIn(database.ownerSql, deps.linkTokens, "reset-password");
  await resetPassword(deps, { token, newPassword: NEW_PASSWORD }, context());
  expect(await outcomeOf(loginOn("", NEW_PASSWORD)(validCodes()[0]))).toBe("in");
});

test("who has only the password uses up no code of the owner's step-ups and approvals", async () => {
  expect(await spend(loginOn(""))).toBe(10);
  expect(await outcomeOf(loginOn("")(validCodes()[0]))).toBe("too_many_requests");
  expect(await outcomeOf(inSession["a step-up"](validCodes()[0]))).toBe("in");
  nowMs += 30_000;
  expect(await outcomeOf(inSession["an approval"](validCodes()[0]))).toBe("in");
});

test.each<[string, () => WayIn]>([
  ["a login", () => loginOn("")],
  ...Object.entries(inSession).map(([what, way]): [string, () => WayIn] => [what, () => way]),
])("the fifth wrong code in a row is sent to the owner: %s", async (_what, wayOf) => {
  const way = wayOf();
  const recorded = async () =>
    (await readOutbox(database.ownerSql)).filter(({ template }) => template === "mfa-guessed");
  for (let count = 0; count < 4; count += 1) expect(await outcomeOf(way(guess()))).toBe("mfa_code_invalid");
  expect(await recorded()).toEqual([]);
  expect(await outcomeOf(way(guess()))).toBe("mfa_code_invalid");
  expect(await recorded()).toMatchObject([{ recipient: ANNA.email, data: { ip: FROM.clientIp } }]);
  expect(deps.wakeMailWorker).toHaveBeenCalled();
});
