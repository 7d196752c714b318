import { type Sql, type TransactionSql, transaction } from "#kit/database/postgres.ts";
import { boundedCache } from "#kit/values/bounded-cache.ts";
import type { AfterAnswer } from "../mail/after-answer.ts";
import { dailyNoticeId } from "../mail/mail.ts";
import { hasNoticeBudget } from "../mail/mail-budget-store.ts";
import { hasMail, insertMail } from "../mail/mail-outbox-store.ts";
import { type MakeLinkDeps, makeLink } from "../mail/make-link.ts";
import { lockAccountByEmail } from "../users/account-store.ts";

export interface GuessNoticeDeps extends MakeLinkDeps {
  sql: Sql;
  /** A separate queue, so that guesses cannot fill that of requested mails. */
  afterAnswer: AfterAnswer;
  wakeMailWorker: () => void;
}

/** An evicted address is looked up again. */
const MAX_REMEMBERED_ADDRESSES = 10_000;
const TEMPLATE = "account-guessed-at";

/** At most one mail a UTC day. Never waits or throws; a full queue drops it. */
export function createGuessNotices(deps: GuessNoticeDeps): (email: string) => void {
  const done = boundedCache<string, true>(MAX_REMEMBERED_ADDRESSES);
  return (email) => {
    const today = `${deps.now().toISOString().slice(0, 10)} ${email}`;
    if (done.has(today)) return;
    try {
      deps.afterAnswer.run(TEMPLATE, async () => {
        if (done.has(today)) return;
        const isMade = await transaction(deps.sql, (tx) => mailOwner(tx, deps, email));
        done.set(today, true);
        if (isMade) deps.wakeMailWorker();
      });
    } catch {
      // The queue is full.
    }
  };
}

async function mailOwner(tx: TransactionSql, deps: GuessNoticeDeps, email: string): Promise<boolean> {
  const account = await lockAccountByEmail(tx, email);
  if (account?.status !== "active" || account.passwordHash === null) return false;
  const { id: userId, email: recipient } = account;
  const now = deps.now();
  const id = dailyNoticeId(TEMPLATE, userId, now);
  if (await hasMail(tx, id)) return false;
  // Before the link, because unsent ones count against those that the owner requests.
  if (!(await hasNoticeBudget(tx, { id, userId, recipient }, now))) return false;
  const link = await makeLink(tx, deps, { userId, purpose: "reset_password" });
  const data = { link, occurredAt: now.toISOString() };
  return insertMail(tx, { id, userId, recipient, template: TEMPLATE, data }, now);
}
