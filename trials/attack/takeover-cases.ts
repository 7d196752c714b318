import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { TestAuthenticator } from "#identity-service/passkeys/authenticator.fixture.ts";
import { chooseAtProvider, plainBrowser } from "#tests/support/browser/plain-browser.ts";
import {
  type AttackAccount,
  clickConfirmation,
  freshEmail,
  logIn,
  NEW_PASSWORD,
  newAccount,
  PASSWORD,
  provenAccount,
  resetPassword,
  useResetLink,
} from "./account.ts";
import { accountWithFactor, challengeOf, enableFactor, type Factor, needsFactor, stepUp } from "./factor.ts";
import {
  type AttackCase,
  call,
  freshAddress,
  mailedToken,
  must,
  NotPossible,
  type Target,
} from "./target.ts";

interface Ceremony {
  credentialId: string;
  clientDataJson: string;
}

/** Writes what a browser's `toJSON` writes (WebAuthn Level 3 §5.1). */
const responseOf = ({ credentialId: id, clientDataJson: clientDataJSON, ...response }: Ceremony) => ({
  ...{ id, rawId: id, type: "public-key", clientExtensionResults: {} },
  response: { clientDataJSON, ...response },
});

/** How long a revocation may take until every gateway knows it. */
const REVOCATION_MS = 1_500;

/** Asks to link the account at the demo provider. @returns where the browser is sent, and what it keeps. */
async function beginLinking(target: Target, { accessToken: token, from }: AttackAccount) {
  const answer = await call(target, "POST", "/auth/me/identities/demo", {
    token,
    from,
    body: { password: PASSWORD },
  });
  if (answer.body.error?.code === "provider_not_found") throw new NotPossible("there is no provider demo");
  return answer;
}

async function logOutEverywhere(target: Target, { accessToken: token, from }: AttackAccount): Promise<void> {
  const out = await call(target, "POST", "/auth/logout", { token, from, body: { scope: "all" } });
  must(out.status === 200, `logout: ${out.status}`);
}

/** @returns the token of the mail to the new address. */
async function beginAddressChange(target: Target, account: AttackAccount, newEmail: string): Promise<string> {
  const { accessToken: token, from } = account;
  const body = { newEmail, password: PASSWORD };
  const asked = await call(target, "POST", "/auth/change-email", { token, from, body });
  must(asked.status === 200 || asked.status === 202, `change-email: ${asked.status}`);
  return mailedToken(target, newEmail, "confirm-email-change");
}

/** With all that one who knows the password has, and without. @returns whether the address was changed. */
async function confirmsAddressChange(target: Target, token: string, password?: string): Promise<boolean> {
  for (const body of password === undefined ? [{ token }] : [{ token }, { token, password }]) {
    const answer = await call(target, "POST", "/auth/confirm-email-change", { body, from: freshAddress() });
    if (answer.status === 200) return true;
  }
  return false;
}

async function mustBeOut(target: Target, { email, accessToken, refreshToken }: AttackAccount): Promise<void> {
  must((await logIn(target, email)).status === 401, "the old password still logs in");
  await sleep(REVOCATION_MS);
  const me = await call(target, "GET", "/auth/me", { token: accessToken });
  must(me.status === 401, "the old access token still works");
  const refreshed = await call(target, "POST", "/auth/refresh", { body: { refreshToken } });
  must(refreshed.status === 401, "the old refresh token still works");
}

/** Large enough to need an approval. @returns a payment of this user's, and an approval of it that was given. */
async function approvedPayment(target: Target, account: AttackAccount & Factor) {
  const { from, recoveryCodes } = account;
  const begun = await call(target, "POST", "/auth/step-up", {
    token: account.accessToken,
    from,
    body: { acr: 2 },
  });
  must(begun.status === 200, `step-up: ${begun.status} ${begun.body.error?.code}`);
  const step = { stepUpToken: begun.body.data.stepUpToken, code: recoveryCodes[1] };
  const raised = await call(target, "POST", "/auth/step-up/verify", {
    token: account.accessToken,
    from,
    body: step,
  });
  must(raised.status === 200, `step-up/verify: ${raised.status} ${raised.body.error?.code}`);
  const token = raised.body.data.accessToken as string;
  const payee = { name: "ACME Ltd" };
  const saved = await call(target, "POST", "/payees", { token, from, body: payee });
  if (saved.status === 404) throw new NotPossible("there is no payments-service");
  must(saved.status === 201, `payees: ${saved.status} ${saved.body.error?.code}`);
  const body = { amount: 25_000, currency: "EUR", payee: payee.name, reference: randomUUID() };
  const asked = await call(target, "POST", "/payments", { token, from, body });
  must(asked.body.error?.code === "approval_required", `a payment without its approval: ${asked.status}`);
  const { token: approval } = asked.body.error.details.approval as { token: string };
  const proof = { token: approval, code: recoveryCodes[0] };
  const given = await call(target, "POST", "/auth/approvals/verify", { token, from, body: proof });
  must(given.status === 200, `approvals/verify: ${given.status} ${given.body.error?.code}`);
  return { token, body, approval };
}

export const TAKEOVER_CASES: readonly AttackCase[] = [
  {
    name: "payments: one approval pays once, however its idempotency key is kept from the upstream",
    run: async (target) => {
      const account = await accountWithFactor(target);
      const { from } = account;
      const { token, body, approval } = await approvedPayment(target, account);
      const tries = [
        { "idempotency-key": "a, b" },
        { "idempotency-key": "a, b" },
        { "idempotency-key": "a, b", connection: "Idempotency-Key" },
        { "idempotency-key": "a, b", connection: "close, idempotency-key" },
        { "idempotency-key": ["a", "b"] },
      ];
      for (const key of tries) {
        const headers = { ...key, "gatehouse-approval": approval };
        await call(target, "POST", "/payments", { token, from, body, headers });
      }
      const { payments } = (await call(target, "GET", "/payments", { token, from })).body.data;
      must(payments.length === 1, `${payments.length} payments`);
    },
  },
  {
    name: "accounts: who registers somebody's address can plant no second factor and no provider before it is proven",
    run: async (target) => {
      const account = await newAccount(target, freshEmail());
      must((await enableFactor(target, account)) === undefined, "a second factor was enabled");
      const link = await beginLinking(target, account);
      must(link.status === 403 && link.body.error.code === "email_not_verified", `linking: ${link.status}`);
    },
  },
  {
    name: "accounts: a click on the confirmation proves no credentials: no second factor for the one who registered",
    run: async (target) => {
      const account = await newAccount(target, freshEmail());
      await clickConfirmation(target, account.email);
      must((await enableFactor(target, account)) === undefined, "a second factor was enabled");
    },
  },
  {
    name: "accounts: the owner's reset leaves nothing of the one who registered, also after a click",
    run: async (target) => {
      const account = await newAccount(target, freshEmail());
      await enableFactor(target, account);
      await clickConfirmation(target, account.email);
      await enableFactor(target, account);
      await resetPassword(target, account.email);
      await mustBeOut(target, account);
      const isLockedOut = await needsFactor(target, account.email, NEW_PASSWORD);
      must(!isLockedOut, "the owner is asked for the second factor of the one who registered");
    },
  },
  {
    name: "accounts: 'I did not make this account' leaves nothing of the one who registered",
    run: async (target) => {
      const account = await newAccount(target, freshEmail());
      const body = { token: await mailedToken(target, account.email, "verify-email") };
      const answer = await call(target, "POST", "/auth/disown-account", { body, from: freshAddress() });
      must(answer.status === 200, `disown-account: ${answer.status}`);
      await mustBeOut(target, account);
    },
  },
  {
    name: "accounts: nobody gets an account with its maker's password by a click in the mail of a change of address",
    run: async (target) => {
      const token = await beginAddressChange(target, await provenAccount(target), freshEmail());
      must(!(await confirmsAddressChange(target, token)), "the click alone changed the address");
    },
  },
  {
    name: "accounts: taking the address back takes away a second factor that the thief of the password enabled before",
    run: async (target) => {
      const account = await provenAccount(target);
      const { email, from } = account;
      const factor = await enableFactor(target, account);
      if (factor === undefined) throw new Error("a proven account may not enable a second factor");
      const token = await stepUp(target, account, factor.recoveryCodes[0]);
      const mailed = await beginAddressChange(target, { ...account, accessToken: token }, freshEmail());
      const body = { token: mailed };
      const changed = await call(target, "POST", "/auth/confirm-email-change", { token, from, body });
      must(changed.status === 200, `confirm-email-change: ${changed.status} ${changed.body.error?.code}`);
      const undo = { token: await mailedToken(target, email, "undo-email-change") };
      const undone = await call(target, "POST", "/auth/undo-email-change", { body: undo });
      must(undone.status === 200, `undo-email-change: ${undone.status}`);
      // The undo mails it.
      await useResetLink(target, email);
      must(!(await needsFactor(target, email, NEW_PASSWORD)), "the owner is asked for the thief's factor");
    },
  },
  {
    name: "accounts: with the password alone, a session of level 1 changes nothing of how a user with a second factor logs in",
    run: async (target) => {
      const { accessToken: token, from } = await accountWithFactor(target);
      const password = PASSWORD;
      const changes: [string, string, object][] = [
        ["POST", "/auth/mfa/setup", { password }],
        ["POST", "/auth/mfa/enable", { code: "000000" }],
        ["POST", "/auth/passkeys/options", {}],
        ["POST", "/auth/change-email", { password, newEmail: freshEmail() }],
        ["POST", "/auth/change-password", { currentPassword: password, newPassword: NEW_PASSWORD }],
        ["POST", "/auth/me/identities/demo", { password }],
        ["DELETE", "/auth/me", { password }],
      ];
      for (const [method, path, body] of changes) {
        const { status, body: said } = await call(target, method, path, { token, from, body });
        const isRefused =
          said.error?.code === "step_up_required" || said.error?.code === "provider_not_found";
        must(isRefused, `${method} ${path}: ${status} ${said.error?.code}`);
      }
    },
  },
  {
    name: "accounts: who has only the password takes no challenge of the owner's passkey away",
    run: async (target) => {
      const { email, from, accessToken } = await provenAccount(target);
      const device = new TestAuthenticator("ES256", {
        rpId: target.url.hostname,
        origin: target.url.origin,
      });
      const asOwner = (path: string, token: string, body: object) =>
        call(target, "POST", path, { token, from, body });
      const options = await asOwner("/auth/passkeys/options", accessToken, {});
      if (options.status !== 200) throw new NotPossible(`passkeys/options: ${options.status}`);
      const response = responseOf(device.create(options.body.data));
      const added = await asOwner("/auth/passkeys", accessToken, { response, name: "Phone" });
      must(added.status === 201, `passkeys: ${added.status} ${added.body.error?.code}`);
      const begun = await asOwner("/auth/step-up", accessToken, { acr: 3 });
      must(begun.status === 200, `step-up: ${begun.status} ${begun.body.error?.code}`);
      for (let count = 0; count < 21; count += 1) await logIn(target, email, PASSWORD, freshAddress());
      const { stepUpToken, passkey } = begun.body.data;
      const proof = { stepUpToken, passkey: responseOf(device.get(passkey)) };
      const raised = await asOwner("/auth/step-up/verify", accessToken, proof);
      must(raised.status === 200, `the owner's signature: ${raised.status} ${raised.body.error?.code}`);
    },
  },
  {
    name: "accounts: after 'log out everywhere' a change of address that was under way does not happen",
    run: async (target) => {
      const account = await provenAccount(target);
      const token = await beginAddressChange(target, account, freshEmail());
      await logOutEverywhere(target, account);
      must(!(await confirmsAddressChange(target, token, PASSWORD)), "the address was changed");
    },
  },
  {
    name: "accounts: after 'log out everywhere' a login that waited for its second factor does not finish",
    run: async (target) => {
      const account = await accountWithFactor(target);
      const tempToken = await challengeOf(target, account.email, account.from);
      await logOutEverywhere(target, account);
      const body = { tempToken, code: account.recoveryCodes[0] };
      const answer = await call(target, "POST", "/auth/mfa/verify", { body, from: account.from });
      must(answer.status === 401, `mfa/verify: ${answer.status}`);
    },
  },
  {
    name: "accounts: after 'log out everywhere' a provider that was being linked is not linked",
    run: async (target) => {
      const account = await provenAccount(target);
      const begun = await beginLinking(target, account);
      must(begun.status === 200, `linking: ${begun.status} ${begun.body.error?.code}`);
      const cookies = [begun.headers["set-cookie"] ?? []].flat();
      const browser = plainBrowser(fetch, { [target.url.origin]: cookies });
      const callback = await chooseAtProvider(browser, begun.body.data.url as string, "grace");
      await logOutEverywhere(target, account);
      const landed = new URLSearchParams(new URL((await browser(callback)).next).hash.slice(1));
      if (landed.get("error") === "already_linked") throw new NotPossible("grace is linked already");
      must(landed.get("error") !== null, `the callback says ${[...landed.keys()].join(", ")}`);
      const { body } = await logIn(target, account.email);
      const token = body.data.accessToken as string;
      const listed = await call(target, "GET", "/auth/me/identities", { token });
      must(listed.body.data.identities.length === 0, "the provider is linked");
    },
  },
];
