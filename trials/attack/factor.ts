import { setTimeout as sleep } from "node:timers/promises";
import { generateSync } from "otplib";
import { type AttackAccount, logIn, PASSWORD, provenAccount } from "./account.ts";
import { call, must, type Target } from "./target.ts";

const STEP_S = 30;
/** What the calls between two codes take at the most. */
const CALLS_S = 12;

export interface Factor {
  /** The code of the present step, or of one that is so many seconds away. */
  codeAt: (shiftS?: number) => string;
  recoveryCodes: string[];
}

/**
 * Waits until the present step of the codes lasts for a while. A code counts once, so that a case enables with the code
 * of the step before and logs in with the present one.
 */
async function freshStep(): Promise<void> {
  const leftS = STEP_S - ((Date.now() / 1_000) % STEP_S);
  if (leftS < CALLS_S) await sleep((leftS + 0.1) * 1_000);
}

/** @returns undefined if the account may not have one. */
export async function enableFactor(target: Target, account: AttackAccount): Promise<Factor | undefined> {
  const { accessToken: token, from } = account;
  const setUp = await call(target, "POST", "/auth/mfa/setup", { token, from, body: { password: PASSWORD } });
  if (setUp.status !== 200) return undefined;
  const { secret } = setUp.body.data as { secret: string };
  const codeAt = (shiftS = 0) => generateSync({ secret, epoch: Math.floor(Date.now() / 1_000) + shiftS });
  await freshStep();
  const body = { code: codeAt(-STEP_S) };
  const enabled = await call(target, "POST", "/auth/mfa/enable", { token, from, body });
  must(enabled.status === 200, `mfa/enable: ${enabled.status} ${JSON.stringify(enabled.body)}`);
  // A device is known for logins in the seconds after the one in which the factor was enabled.
  await sleep(1_000);
  return { codeAt, recoveryCodes: enabled.body.data.recoveryCodes as string[] };
}

/** Raises the session to level 2. @returns its new access token. */
export async function stepUp(target: Target, { accessToken: token, from }: AttackAccount, code = "") {
  const begun = await call(target, "POST", "/auth/step-up", { token, from, body: { acr: 2 } });
  must(begun.status === 200, `step-up: ${begun.status} ${begun.body.error?.code}`);
  const body = { stepUpToken: begun.body.data.stepUpToken as string, code };
  const raised = await call(target, "POST", "/auth/step-up/verify", { token, from, body });
  must(raised.status === 200, `step-up/verify: ${raised.status} ${raised.body.error?.code}`);
  return raised.body.data.accessToken as string;
}

/** A proven account with a second factor. */
export async function accountWithFactor(target: Target): Promise<AttackAccount & Factor> {
  const account = await provenAccount(target);
  const factor = await enableFactor(target, account);
  if (factor === undefined) throw new Error("a proven account may not enable a second factor");
  return { ...account, ...factor };
}

/** Logs in with the password. @returns the token of the login that waits for a code. */
export async function challengeOf(target: Target, email: string, from: string, headers = {}) {
  const answer = await call(target, "POST", "/auth/login", {
    body: { email, password: PASSWORD },
    from,
    headers,
  });
  must(answer.body.data?.requireMfa === true, `login: ${answer.status} ${JSON.stringify(answer.body)}`);
  return answer.body.data.tempToken as string;
}

/** Differs from the code of any time near now. */
export function wrongCode(codeAt: Factor["codeAt"]): string {
  const near = [-60, -30, 0, 30, 60].map(codeAt);
  const wrong = ["000000", "111111", "222222", "333333", "444444", "555555"];
  return wrong.find((code) => !near.includes(code)) ?? "";
}

export async function needsFactor(target: Target, email: string, password: string): Promise<boolean> {
  const answer = await logIn(target, email, password);
  must(answer.status === 200, `the owner's login: ${answer.status} ${answer.body.error?.code}`);
  return answer.body.data.requireMfa === true;
}
