import type { TransactionSql } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { inUtc } from "../mail/describe-origin.ts";
import { enqueueMail } from "../mail/mail-outbox-store.ts";
import type { EndSessionsDeps } from "../sessions/end-sessions.ts";
import type { Account, Locked } from "../users/account.ts";
import { type Evicted, evictCredentials } from "./evict-credentials.ts";

export interface Claim extends Partial<ClientOrigin> {
  by: "password_reset" | "provider_claim" | "account_disowned";
  provider?: { name: string; displayName: string };
  keptIdentity?: { issuer: string; subject: string };
}

/** Set and prove the new credentials in the same transaction. */
export async function claimAccount(
  tx: TransactionSql,
  deps: Pick<EndSessionsDeps, "now" | "newId">,
  { account, ...claim }: Claim & { account: Locked<Account> },
  context: CallContext,
): Promise<Evicted> {
  const { by, keptIdentity, clientIp = "", userAgent = "" } = claim;
  const { id: userId, email: recipient } = account;
  const now = deps.now();
  const evicted = await evictCredentials(
    tx,
    deps,
    { account, reason: by, ...(keptIdentity && { keptIdentity }) },
    context,
  );
  await enqueueMail(tx, { id: deps.newId(), userId, recipient, ...noticeOf(claim, evicted, now) }, now);
  const reason = claim.provider === undefined ? by : `${by}: ${claim.provider.name}`;
  const event = { type: "account_claimed", userId, byOwner: true, reason, clientIp, userAgent } as const;
  await recordAudit(tx, deps, event, context);
  return evicted;
}

function noticeOf(claim: Claim, evicted: Evicted, now: Date) {
  const occurredAt = inUtc(now);
  const isPlain =
    claim.by === "password_reset" &&
    evicted.providers.length === 0 &&
    !evicted.hadSecondFactor &&
    evicted.passkeys === 0;
  if (isPlain) return { template: "password-changed", data: { occurredAt } } as const;
  const data = { occurredAt, claim: claimText(claim), removed: removedText(evicted) };
  return { template: "account-claimed", data } as const;
}

function claimText({ by, provider }: Claim): string {
  if (by === "password_reset") return "A new password was set with the link that we mailed to you.";
  if (provider !== undefined)
    return `Somebody logged in with ${provider.displayName}, which says that your address is theirs.`;
  return "The link that we mailed to you was used to say that you did not make the account.";
}

function removedText({ hadPassword, providers, hadSecondFactor, passkeys }: Evicted): string {
  const removed = [
    ...(hadPassword ? ["the earlier password"] : []),
    ...providers.map((provider) => `the login with ${provider}`),
    ...(passkeys > 0 ? ["the passkeys"] : []),
    ...(hadSecondFactor ? ["the second factor and its recovery codes"] : []),
  ];
  return removed.length === 0 ? "nothing but the sessions" : removed.join(", ");
}
