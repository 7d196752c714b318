import { type AskedMail, type MailALinkDeps, mailALink } from "./mail-a-link.ts";

/** Mails a new verification link if the credentials are unproven. @throws {DomainError} `too_many_requests`, `busy`. */
export function resendVerification(deps: MailALinkDeps, asked: AskedMail): Promise<void> {
  const kind = { call: "resend_verification", purpose: "verify_email", template: "verify-email" } as const;
  return mailALink(deps, kind, asked, ({ credentialsProvenAt }) => credentialsProvenAt === null);
}
