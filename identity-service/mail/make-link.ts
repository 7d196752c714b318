import type { Sql, TransactionSql } from "#kit/database/postgres.ts";
import { countLinksSince, deleteEndedLinks, insertLink, killLinks } from "./link-store.ts";
import { hashOfToken, LINK_LIFETIME_MS, type LinkPurpose, type LinkTokens, storedLink } from "./links.ts";

export interface MakeLinkDeps {
  linkTokens: LinkTokens;
  now: () => Date;
  newId: () => string;
}

export interface NewLink {
  userId: string;
  purpose: LinkPurpose;
  newEmail?: string;
  areCredentialsProven?: boolean;
  isVouched?: boolean;
  sessionId?: string | null;
  /** Other than that of the purpose. */
  lifetimeMs?: number;
}

const OUTLIVING: ReadonlySet<LinkPurpose> = new Set([
  "undo_email_change",
  "undo_access_change",
  "reset_password",
]);

const MAX_LINKS_PER_HOUR = 3;
const HOUR_MS = 3_600_000;

/**
 * Invalidates older links of the purpose, except undo links, which revert different changes, reset links, which strangers can
 * request, and those to the same new address, because strangers can use up its mails.
 */
export async function makeLink(tx: TransactionSql, deps: MakeLinkDeps, link: NewLink): Promise<string> {
  const { userId, purpose, newEmail = null, areCredentialsProven = false, sessionId = null } = link;
  const { isVouched = false } = link;
  const { lifetimeMs = LINK_LIFETIME_MS[purpose] } = link;
  const now = deps.now();
  const outlivesTheNext = OUTLIVING.has(purpose);
  if (!outlivesTheNext) await killLinks(tx, { userId, purposes: [purpose], now, exceptTo: newEmail });
  const id = deps.newId();
  const tokenHash = hashOfToken(deps.linkTokens.tokenOf(id));
  if (tokenHash === undefined) throw new Error("the generated token has an invalid format");
  const expiresAt = new Date(now.getTime() + lifetimeMs);
  const facts = { userId, newEmail, areCredentialsProven, isVouched, sessionId, createdAt: now, expiresAt };
  await insertLink(tx, { id, tokenHash, purpose, ...facts });
  return storedLink(purpose, id);
}

/** Hourly limit per purpose. Requires the account lock. */
export async function hasHadEnough(
  tx: TransactionSql,
  deps: Pick<MakeLinkDeps, "now">,
  link: Pick<NewLink, "userId" | "purpose">,
): Promise<boolean> {
  const since = new Date(deps.now().getTime() - HOUR_MS);
  return (await countLinksSince(tx, { ...link, since })) >= MAX_LINKS_PER_HOUR;
}

/** Must exceed the hour in which links are counted. */
const KEEP_ENDED_MS = 24 * 3_600_000;
const MAX_BATCH = 1_000;

export async function deleteOldLinks(deps: { sql: Sql; now: () => Date }): Promise<void> {
  const endedBefore = new Date(deps.now().getTime() - KEEP_ENDED_MS);
  while ((await deleteEndedLinks(deps.sql, endedBefore, MAX_BATCH)) === MAX_BATCH);
}
