import type { Sql } from "#kit/database/postgres.ts";
import type { LinkTokens } from "../mail/links.ts";
import type { MailName } from "../mail/mail.ts";

interface WaitingMail {
  template: MailName;
  recipient: string;
  data: Record<string, string>;
}

export function readOutbox(ownerSql: Sql): Promise<WaitingMail[]> {
  return ownerSql<WaitingMail[]>`select template, recipient, data from mail_outbox order by created_at, id`;
}

/** Oldest first. */
export async function tokensIn(ownerSql: Sql, linkTokens: LinkTokens, template: MailName): Promise<string[]> {
  const mails = await readOutbox(ownerSql);
  return mails
    .filter((mail) => mail.template === template)
    .map(({ data }) => new URL(linkTokens.completed(data).link ?? "").searchParams.get("token") ?? "");
}
