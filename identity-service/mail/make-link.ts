import type { TransactionSql } from "../../service-kit/postgres.ts";
import { countLinksSince, insertLink, killLinks } from "./link-store.ts";
import { hashOfToken, LINK_LIFETIME_MS, type LinkPurpose, type LinkTokens, storedLink } from "./links.ts";

export interface MakeLinkDeps {
  linkTokens: LinkTokens;
  now: () => Date;
  /** A new UUIDv7. */
  newId: () => string;
}

/** What a link is for. */
export interface NewLink {
  userId: string;
  purpose: LinkPurpose;
  newEmail?: string;
  /** Of one that gives an address back: whether the credentials are proven with it. Default: they are not. */
  areCredentialsProven?: boolean;
  /** In which it is asked for: the link expires with that session. */
  sessionId?: string | null;
}

/** Links that stay good when the next one of their purpose is made. */
const OUTLIVING: ReadonlySet<LinkPurpose> = new Set([
  "undo_email_change",
  "undo_access_change",
  "reset_password",
]);

const MAX_LINKS_PER_HOUR = 3;
const HOUR_MS = 3_600_000;

/**
 * Makes a link, in the transaction that asks for its mail. The user's older ones of the purpose die with it, but not
 * those that undo a change (each is the way back from another one), nor those that reset a password: who asks for one in
 * the owner's name must not end the owner's.
 *
 * @returns the link as a mail's values take it.
 */
export async function makeLink(tx: TransactionSql, deps: MakeLinkDeps, link: NewLink): Promise<string> {
  const { userId, purpose, newEmail = null, areCredentialsProven = false, sessionId = null } = link;
  const now = deps.now();
  const outlivesTheNext = OUTLIVING.has(purpose);
  if (!outlivesTheNext) await killLinks(tx, { userId, purposes: [purpose], now });
  const id = deps.newId();
  const tokenHash = hashOfToken(deps.linkTokens.tokenOf(id));
  if (tokenHash === undefined) throw new Error("the generated token has an invalid format");
  const expiresAt = new Date(now.getTime() + LINK_LIFETIME_MS[purpose]);
  const facts = { userId, newEmail, areCredentialsProven, sessionId, createdAt: now, expiresAt };
  await insertLink(tx, { id, tokenHash, purpose, ...facts });
  return storedLink(purpose, id);
}

/** Whether a user has had as many mails of a purpose as an hour allows. Under the lock of the user's row. */
export async function hasHadEnough(
  tx: TransactionSql,
  deps: Pick<MakeLinkDeps, "now">,
  link: Pick<NewLink, "userId" | "purpose">,
): Promise<boolean> {
  const since = new Date(deps.now().getTime() - HOUR_MS);
  return (await countLinksSince(tx, { ...link, since })) >= MAX_LINKS_PER_HOUR;
}
