import { type AskedMail, type MailALinkDeps, mailALink } from "./mail-a-link.ts";

/**
 * Mails a password reset link if the address has an active account.
 * @throws {DomainError} `too_many_requests`, `busy`.
 */
export function forgotPassword(deps: MailALinkDeps, asked: AskedMail): Promise<void> {
  const kind = { call: "forgot_password", purpose: "reset_password", template: "reset-password" } as const;
  return mailALink(deps, kind, asked, () => true);
}
