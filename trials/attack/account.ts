import { randomUUID } from "node:crypto";
import { call, freshAddress, mailedToken, type Target } from "./target.ts";

export const PASSWORD = "correct horse battery";

export interface AttackAccount {
  email: string;
  password: string;
  accessToken: string;
  refreshToken: string;
  /** The network that it was made from. */
  from: string;
}

export async function register(target: Target, email: string, password = PASSWORD, from = freshAddress()) {
  const body = { email, password, firstName: "Ada", lastName: "Lovelace" };
  const answer = await call(target, "POST", "/auth/register", { body, from });
  if (answer.status !== 201) throw new Error(`register: ${answer.status} ${JSON.stringify(answer.body)}`);
}

export function logIn(target: Target, email: string, password = PASSWORD, from = freshAddress()) {
  return call(target, "POST", "/auth/login", { body: { email, password }, from });
}

/** An account whose address nobody has proven. */
export async function newAccount(
  target: Target,
  email = `attack-${randomUUID()}@example.com`,
): Promise<AttackAccount> {
  const from = freshAddress();
  await register(target, email, PASSWORD, from);
  const answer = await logIn(target, email, PASSWORD, from);
  if (answer.status !== 200) throw new Error(`login: ${answer.status} ${JSON.stringify(answer.body)}`);
  const { accessToken, refreshToken } = answer.body.data;
  return { email, password: PASSWORD, accessToken, refreshToken, from };
}

/** An account whose credentials were proven together with its mailbox. */
export async function provenAccount(target: Target): Promise<AttackAccount> {
  const account = await newAccount(target);
  const token = await mailedToken(target, account.email, "verify-email");
  const { accessToken } = account;
  const answer = await call(target, "POST", "/auth/verify-email", { token: accessToken, body: { token } });
  if (answer.status !== 200) throw new Error(`verify: ${answer.status} ${JSON.stringify(answer.body)}`);
  return account;
}

export const NEW_PASSWORD = "another horse battery";

export const freshEmail = () => `victim-${randomUUID()}@example.com`;

/** As the mailbox's owner does it. */
export async function resetPassword(target: Target, email: string): Promise<void> {
  const asked = await call(target, "POST", "/auth/forgot-password", {
    body: { email },
    from: freshAddress(),
  });
  if (asked.status !== 200) throw new Error(`forgot-password: ${asked.status}`);
  await useResetLink(target, email);
}

/** Sets a new password with the newest link that was mailed. */
export async function useResetLink(target: Target, email: string): Promise<void> {
  const body = { token: await mailedToken(target, email, "reset-password"), newPassword: NEW_PASSWORD };
  const answer = await call(target, "POST", "/auth/reset-password", { body, from: freshAddress() });
  if (answer.status !== 200)
    throw new Error(`reset-password: ${answer.status} ${JSON.stringify(answer.body)}`);
}

/** A click on the link of the confirmation mail: without the account's session or password. */
export async function clickConfirmation(target: Target, email: string): Promise<void> {
  const body = { token: await mailedToken(target, email, "verify-email") };
  const click = await call(target, "POST", "/auth/verify-email", { body, from: freshAddress() });
  if (click.status !== 200) throw new Error(`verify-email: ${click.status} ${JSON.stringify(click.body)}`);
}
