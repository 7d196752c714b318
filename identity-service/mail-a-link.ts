import { orUnavailable, transaction } from "../service-kit/postgres.ts";
import { type LockedAccount, lockAccountOf } from "./account-store.ts";
import type { AfterAnswer } from "./after-answer.ts";
import { canonicalEmail } from "./canonical-email.ts";
import { type KnownNetworkDeps, spendOrRefuse } from "./known-network.ts";
import { enqueueMail } from "./mail-outbox-store.ts";
import { hasHadEnough, type MakeLinkDeps, makeLink } from "./make-link.ts";
import type { Throttle } from "./throttle.ts";

export interface MailALinkDeps extends MakeLinkDeps, KnownNetworkDeps {
  afterAnswer: AfterAnswer;
  throttle: Pick<Throttle, "spend">;
  /** There is a mail to send; not waited for. */
  wakeMailWorker: () => void;
}

/** Who wants a mail, and from where. */
export interface AskedMail {
  /** As typed. */
  email: string;
  /** The client's address; without one the call is counted only against everybody's budget. */
  clientIp?: string;
}

/**
 * Asks for a mail with a link. The answer comes at once and is the same for every address: whether there is an account,
 * and what it needs, is looked up after it. At most three such mails an hour.
 *
 * @param isDue whether an active account gets one.
 * @throws {DomainError} `too_many_requests` for the network or everybody; `busy`.
 */
export async function mailALink(
  deps: MailALinkDeps,
  kind:
    | { call: "resend_verification"; purpose: "verify_email"; template: "verify-email" }
    | { call: "forgot_password"; purpose: "reset_password"; template: "reset-password" },
  asked: AskedMail,
  isDue: (account: LockedAccount) => boolean,
): Promise<void> {
  await spendOrRefuse(deps, { kind: kind.call, clientIp: asked.clientIp });
  deps.afterAnswer.run(kind.template, async () => {
    const email = canonicalEmail(asked.email);
    if (email === undefined) return;
    const isMade = await orUnavailable(
      transaction(deps.sql, async (tx) => {
        const account = await lockAccountOf(tx, email);
        if (account === undefined || !account.isActive || !isDue(account)) return false;
        const { purpose, template } = kind;
        const wanted = { userId: account.id, purpose };
        if (await hasHadEnough(tx, deps, wanted)) return false;
        const data = { link: await makeLink(tx, deps, wanted) };
        const mail = { id: deps.newId(), userId: account.id, recipient: account.email, template, data };
        return enqueueMail(tx, mail, deps.now());
      }),
    );
    if (isMade) deps.wakeMailWorker();
  });
}
