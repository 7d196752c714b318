import { type MailALinkDeps, mailALink } from "./mail-a-link.ts";

/**
 * Mails a new link that proves an address, if it has an account and is not proven.
 *
 * @param email as typed.
 * @throws {DomainError} `busy`.
 */
export function resendVerification(deps: MailALinkDeps, email: string): void {
  const kind = { purpose: "verify_email", template: "verify-email" } as const;
  mailALink(deps, kind, email, ({ emailVerified }) => !emailVerified);
}
