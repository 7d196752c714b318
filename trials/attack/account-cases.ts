import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { freshEmail, logIn, NEW_PASSWORD, newAccount, PASSWORD, provenAccount, register } from "./account.ts";
import { accountWithFactor, challengeOf, wrongCode } from "./factor.ts";
import { type AttackCase, call, freshAddress, mailedToken, mailsTo, must, NotPossible } from "./target.ts";

export const ACCOUNT_CASES: readonly AttackCase[] = [
  {
    name: "accounts: a thief of the password who types wrong codes does not keep the owner's right code out",
    run: async (target) => {
      const { email, from, codeAt, recoveryCodes } = await accountWithFactor(target);
      const body = { tempToken: await challengeOf(target, email, from), code: recoveryCodes[0] };
      const headers = { "gatehouse-device": "new" };
      const known = await call(target, "POST", "/auth/mfa/verify", { body, from, headers });
      must(known.status === 200, `the owner's first login: ${known.status}`);
      const device = { "gatehouse-device": String(known.headers["gatehouse-device"] ?? "") };
      const thief = freshAddress();
      for (let round = 0; round < 3; round += 1) {
        const tempToken = await challengeOf(target, email, thief);
        for (let count = 0; count < 4; count += 1) {
          const wrong = { tempToken, code: wrongCode(codeAt) };
          await call(target, "POST", "/auth/mfa/verify", { body: wrong, from: thief });
        }
      }
      const tempToken = await challengeOf(target, email, from, device);
      const right = await call(target, "POST", "/auth/mfa/verify", {
        body: { tempToken, code: codeAt() },
        from,
        headers: device,
      });
      must(right.status === 200, `the owner's right code: ${right.status} ${right.body.error?.code}`);
      const subjects = (await mailsTo(target, email)).map(({ subject }) => subject);
      must(
        subjects.some((subject) => /code|password|factor/i.test(subject)),
        `no mail reports it: ${subjects.join(", ")}`,
      );
    },
  },
  {
    name: "accounts: what is no code is 400 and not counted",
    run: async (target) => {
      const { email, from, recoveryCodes } = await accountWithFactor(target);
      const tempToken = await challengeOf(target, email, from);
      const type = (code = "") =>
        call(target, "POST", "/auth/mfa/verify", { body: { tempToken, code }, from });
      for (const code of [" 123456", "12345", "1234567", "1e5", "１２３４５６"]) {
        const { status } = await type(code);
        must(status === 400, `${JSON.stringify(code)}: ${status}`);
      }
      const right = await type(recoveryCodes[0]);
      must(right.status === 200, `a right code after five such texts: ${right.status}`);
    },
  },
  {
    name: "accounts: invisible passwords and look-alike addresses are refused",
    run: async (target) => {
      const names = { firstName: "A", lastName: "B" };
      for (const body of [
        { ...names, email: freshEmail(), password: "\0".repeat(10) },
        { ...names, email: freshEmail(), password: "\u200b".repeat(10) },
        { ...names, email: `ｕser-${randomUUID()}@example.com`, password: PASSWORD },
        { ...names, email: `uſer-${randomUUID()}@example.com`, password: PASSWORD },
      ]) {
        const { status } = await call(target, "POST", "/auth/register", { body, from: freshAddress() });
        must(status === 400, `${JSON.stringify(body.email)}: ${status}`);
      }
    },
  },
  {
    name: "accounts: an attacker who asks for resets does not spend the owner's link",
    run: async (target) => {
      const { email } = await provenAccount(target);
      const ask = (from: string) => call(target, "POST", "/auth/forgot-password", { body: { email }, from });
      await ask(freshAddress());
      const first = await mailedToken(target, email, "reset-password");
      for (let count = 0; count < 5; count += 1) await ask(freshAddress());
      await sleep(1_000);
      const body = { token: first, newPassword: NEW_PASSWORD };
      const answer = await call(target, "POST", "/auth/reset-password", { body, from: freshAddress() });
      must(answer.status === 200, `the owner's link: ${answer.status} ${answer.body.error?.code}`);
    },
  },
  {
    name: "accounts: one mailbox is not flooded, however many networks and accounts ask",
    run: async (target) => {
      const victim = freshEmail();
      for (let count = 0; count < 15; count += 1) {
        const from = freshAddress();
        const body = { email: victim, password: PASSWORD, firstName: "A", lastName: "B" };
        await call(target, "POST", "/auth/register", { body, from });
        const answer = await logIn(target, victim, PASSWORD, from);
        const token = answer.body.data?.accessToken as string | undefined;
        if (token !== undefined)
          await call(target, "DELETE", "/auth/me", { token, from, body: { password: PASSWORD } });
      }
      await sleep(3_000);
      const mails = await mailsTo(target, victim);
      must(mails.length <= 10, `${mails.length} mails`);
    },
  },
  {
    name: "accounts: who slept longer than the access token lives can log out with the refresh token",
    run: async (target) => {
      const { refreshToken, from } = await newAccount(target);
      const out = await call(target, "POST", "/auth/logout", { body: { refreshToken }, from });
      must(out.status === 200, `logout: ${out.status}`);
      const refreshed = await call(target, "POST", "/auth/refresh", { body: { refreshToken }, from });
      must(refreshed.status === 401, `refresh afterwards: ${refreshed.status}`);
    },
  },
  {
    name: "accounts: an attempt to administrate without the role is in the audit log",
    run: async (target) => {
      if (target.adminPassword === undefined)
        throw new NotPossible("the first administrator's password is not readable");
      const { accessToken: token, from } = await newAccount(target);
      const user = await call(target, "GET", "/auth/me", { token, from });
      const { id } = user.body.data.user as { id: string };
      const refused = await call(target, "PATCH", `/admin/users/${id}`, {
        token,
        from,
        body: { role: "ADMIN" },
      });
      must(refused.status === 403, `${refused.status}`);
      const admin = await logIn(target, "admin@gatehouse.example", target.adminPassword);
      must(admin.status === 200, `the administrator's login: ${admin.status}`);
      await sleep(1_500);
      const path = `/admin/audit?actor=${id}&limit=50`;
      const found = await call(target, "GET", path, { token: admin.body.data.accessToken as string });
      const entries = found.body.data.entries as { httpStatus?: number; outcome?: string }[];
      must(
        entries.some(({ httpStatus }) => httpStatus === 403),
        `${entries.length} entries, none with 403`,
      );
    },
  },
  {
    name: "accounts: an administrator does not reset their own second factor",
    run: async (target) => {
      if (target.adminPassword === undefined)
        throw new NotPossible("the first administrator's password is not readable");
      const admin = await logIn(target, "admin@gatehouse.example", target.adminPassword);
      must(admin.status === 200, `the administrator's login: ${admin.status}`);
      const { accessToken: token, user } = admin.body.data as { accessToken: string; user: { id: string } };
      const path = `/admin/users/${user.id}/mfa/reset`;
      const { status, body } = await call(target, "POST", path, { token, body: {} });
      must(status === 403, `POST ${path}: ${status} ${body.error?.code}`);
    },
  },
  {
    name: "accounts: a stranger's guesses do not keep the owner out, nor the owner's network",
    run: async (target) => {
      const email = freshEmail();
      const owner = freshAddress();
      await register(target, email, PASSWORD, owner);
      must((await logIn(target, email, PASSWORD, owner)).status === 200, "the owner's first login");
      for (let count = 0; count < 12; count += 1) await logIn(target, email, `wrong ${count} battery`);
      const again = await logIn(target, email, PASSWORD, owner);
      must(again.status === 200, `the owner from the same network: ${again.status}`);
    },
  },
];
