import type { TransactionSql } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import { recordAudit } from "../audit/record-audit.ts";
import type { Phrase } from "../mail/mail.ts";
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
  const occurredAt = now.toISOString();
  const isPlain =
    claim.by === "password_reset" &&
    evicted.providers.length === 0 &&
    !evicted.hadSecondFactor &&
    evicted.passkeys === 0;
  if (isPlain) return { template: "password-changed", data: { occurredAt } } as const;
  const data = { occurredAt, claim: [claimPhrase(claim)], removed: removedPhrases(evicted) };
  return { template: "account-claimed", data } as const;
}

function claimPhrase({ by, provider }: Claim): Phrase {
  if (by === "password_reset") return { phrase: "claimed-by-reset" };
  if (provider === undefined) return { phrase: "claimed-by-link" };
  return { phrase: "claimed-by-provider", values: { provider: provider.displayName } };
}

function removedPhrases({ hadPassword, providers, hadSecondFactor, passkeys }: Evicted): Phrase[] {
  const removed: Phrase[] = [
    ...(hadPassword ? [{ phrase: "earlier-password" } as const] : []),
    ...providers.map((provider) => ({ phrase: "provider-login", values: { provider } }) as const),
    ...(passkeys > 0 ? [{ phrase: "all-passkeys" } as const] : []),
    ...(hadSecondFactor ? [{ phrase: "second-factor" } as const] : []),
  ];
  return removed.length === 0 ? [{ phrase: "only-sessions" }] : removed;
}
