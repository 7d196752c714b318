/** Values available to the templates of each mail, which are three files in `mail-templates/`. */
export const MAILS = {
  "refresh-reuse": ["occurredAt", "ip", "browser"],
  "mfa-enabled": ["occurredAt", "ip", "browser", "link"],
  "mfa-disabled": ["occurredAt", "ip", "browser"],
  "recovery-codes-renewed": ["occurredAt", "ip", "browser"],
  "recovery-code-used": ["occurredAt", "ip", "browser", "codesLeft"],
  /** Wrong codes after the right password. */
  "mfa-guessed": ["occurredAt", "ip", "browser"],
  /** The stored form of the link is replaced at sending. */
  "verify-email": ["link"],
  "reset-password": ["link"],
  "password-changed": ["occurredAt"],
  /** Phrases: removed and remaining identities. */
  "password-reset": ["occurredAt", "removed", "left"],
  /** The values are phrases. */
  "account-claimed": ["occurredAt", "claim", "removed"],
  "confirm-email-change": ["link"],
  /** Sent to the former address, with an undo link. */
  "email-changed": ["link", "occurredAt"],
  /** Sent to the owner of an address that another user requested. */
  "address-in-use": ["occurredAt"],
  "registration-attempt": ["occurredAt"],
  "new-device": ["occurredAt", "ip", "browser"],
  "account-guessed-at": ["link", "occurredAt"],
  "identity-linked": ["provider", "occurredAt", "ip", "browser", "link"],
  "identity-unlinked": ["provider", "occurredAt", "ip", "browser"],
} as const satisfies Record<string, readonly string[]>;

export type MailName = keyof typeof MAILS;

type MailValues<N extends MailName> = Record<(typeof MAILS)[N][number], string>;

export type NewMail = {
  [N in MailName]: {
    /** UUID of the cause, for deduplication. */
    id: string;
    userId: string;
    recipient: string;
    template: N;
    data: MailValues<N>;
  };
}[MailName];

export type StrangersMail = Extract<
  NewMail,
  { template: "verify-email" | "confirm-email-change" | "registration-attempt" | "address-in-use" }
>;

export interface MailContent {
  subject: string;
  text: string;
  html: string;
}
