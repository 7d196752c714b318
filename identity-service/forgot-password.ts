import { type MailALinkDeps, mailALink } from "./mail-a-link.ts";

/**
 * Mails a link that sets a new password, good for 30 minutes, if the address has an active account.
 *
 * @param email as typed.
 * @throws {DomainError} `busy`.
 */
export function forgotPassword(deps: MailALinkDeps, email: string): void {
  mailALink(deps, { purpose: "reset_password", template: "reset-password" }, email, () => true);
}
