import type { TransactionSql } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { deleteIdentitiesSince, listIdentities } from "../identities/external-identity-store.ts";
import type { OpenLink } from "../mail/link-store.ts";
import type { MailValue, Phrase, PhraseName } from "../mail/mail.ts";
import { linkRefused, openLink, useLink } from "../mail/use-link.ts";
import { findTotpCredential } from "../mfa/mfa-store.ts";
import { claimAccount } from "../ownership/claim-account.ts";
import { recordRemoved } from "../ownership/evict-credentials.ts";
import { RECENT_IDENTITY_MS } from "../ownership/remove-recent-access.ts";
import { listPasskeys } from "../passkeys/passkey-store.ts";
import { checkPassword, refuseBreached } from "../passwords/password-policy.ts";
import { hashNewPassword, replacePassword } from "../passwords/replace-password.ts";
import { type EndedSessions, endSessions } from "../sessions/end-sessions.ts";
import type { SessionEnd } from "../sessions/session-end-store.ts";
import { spendOrRefuse } from "../throttle/spend-call.ts";
import { clearGuesses } from "../throttle/throttle.ts";
import type { Account, Locked } from "../users/account.ts";
import { findAccountById, setCredentialsProven, setPasswordHash } from "../users/account-store.ts";
import type { AccountsDeps } from "./register.ts";

/**
 * Removes everything set up with unproven credentials. Otherwise the second factor stays, which the mailbox alone
 * must not remove, and recently linked identities go unless `keepRecentLogins`. A rejected password leaves the link
 * usable.
 * @throws {DomainError} `reset_token_invalid`, `password_unchanged`, or as `checkPassword`.
 */
export async function resetPassword(
  deps: AccountsDeps,
  request: { token: string; newPassword: string; clientIp?: string; keepRecentLogins?: boolean },
  context: CallContext,
): Promise<EndedSessions> {
  const link = await findResetLink(deps, request);
  const account = await findAccountById(deps.sql, link.userId);
  if (account === undefined) throw linkRefused("reset_password");
  checkPassword(deps.passwordPolicy, request.newPassword, account.email, "newPassword");
  await refuseBreached(deps.passwordPolicy, request.newPassword);
  const { newPassword, clientIp = "" } = request;
  const passwordHash = await hashNewPassword(deps, account, { newPassword, clientIp }, context.deadlineMs);
  const end = await useLink(deps, "reset_password", link, async (tx, locked) => {
    const change = { passwordHash, reason: "password_reset", clientIp } as const;
    const end =
      locked.credentialsProvenAt === null
        ? await claimByReset(tx, deps, { account: locked, ...change }, context)
        : await replacePassword(
            tx,
            deps,
            {
              account: locked,
              ...change,
              ways: await reviewWays(tx, deps, { ...request, userId: locked.id }, context),
            },
            context,
          );
    await setCredentialsProven(tx, locked.id, deps.now());
    return end;
  });
  deps.wakeMailWorker();
  await clearGuesses(deps.throttle, account);
  return { userId: link.userId, sessionIds: await endSessions(deps, end, context) };
}

async function claimByReset(
  tx: TransactionSql,
  deps: AccountsDeps,
  reset: { account: Locked<Account>; passwordHash: string; reason: "password_reset"; clientIp: string },
  context: CallContext,
): Promise<SessionEnd> {
  const { account, passwordHash, reason, clientIp } = reset;
  const { id: userId } = account;
  const { end } = await claimAccount(tx, deps, { account, by: reason, clientIp }, context);
  await setPasswordHash(tx, { userId, passwordHash, at: deps.now() });
  await recordAudit(tx, deps, { type: reason, userId, byOwner: true, clientIp }, context);
  return end;
}

/** Valid links mark known callers, so that invalid ones cannot block resets. */
async function findResetLink(
  deps: AccountsDeps,
  { token, clientIp }: { token: string; clientIp?: string },
): Promise<OpenLink> {
  const found = await openLink(deps, "reset_password", token).catch(ifLinkRefused);
  await spendOrRefuse(deps, { kind: "reset_password", clientIp, isKnown: found !== undefined });
  if (found === undefined) throw linkRefused("reset_password");
  return found;
}

function ifLinkRefused(error: unknown): undefined {
  if (error instanceof DomainError && error.code === "reset_token_invalid") return undefined;
  throw error;
}

/** Returns phrases for the mail. */
async function reviewWays(
  tx: TransactionSql,
  deps: AccountsDeps,
  { userId, keepRecentLogins = false }: { userId: string; keepRecentLogins?: boolean },
  context: CallContext,
): Promise<{ removed: MailValue; left: MailValue }> {
  const since = new Date(deps.now().getTime() - RECENT_IDENTITY_MS);
  const removed = keepRecentLogins ? [] : await deleteIdentitiesSince(tx, userId, since);
  await recordRemoved(tx, deps, { userId, providers: removed, hadSecondFactor: false, passkeys: 0 }, context);
  const identities = await listIdentities(tx, userId);
  const passkeys = await listPasskeys(tx, userId);
  const confirmedAt = (await findTotpCredential(tx, userId))?.confirmedAt ?? null;
  const left: Phrase[] = [
    ...identities.map(({ provider, linkedAt }) =>
      phraseOf("provider-login-since", { provider, linkedAt: linkedAt.toISOString() }),
    ),
    ...passkeys.map(({ createdAt }) => phraseOf("passkey-since", { addedAt: createdAt.toISOString() })),
    ...(confirmedAt === null
      ? []
      : [phraseOf("second-factor-since", { enabledAt: confirmedAt.toISOString() })]),
  ];
  const orNothing = (phrases: Phrase[]) => (phrases.length === 0 ? [phraseOf("nothing")] : phrases);
  return {
    removed: orNothing(removed.map((provider) => phraseOf("provider-login", { provider }))),
    left: orNothing(left),
  };
}

function phraseOf(phrase: PhraseName, values: Record<string, string> = {}): Phrase {
  return { phrase, values };
}
