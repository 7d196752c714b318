/** Values available to the templates of each mail, which are three files in `mail-templates/`. */
export const MAILS = {
  /** A refresh token was reused; its session has ended. */
  "refresh-reuse": ["occurredAt", "ip", "browser"],
  /** Contains an undo link. */
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
  /** The mailbox owner claimed an account with unproven credentials. The values are phrases. */
  "account-claimed": ["occurredAt", "claim", "removed"],
  /** Sent to the new address. */
  "confirm-email-change": ["link"],
  /** Sent to the former address, with an undo link. */
  "email-changed": ["link", "occurredAt"],
  /** Sent to the owner of an address that another user requested. */
  "address-in-use": ["occurredAt"],
  /** Sent to the owner of an address that was registered again. */
  "registration-attempt": ["occurredAt"],
  "new-device": ["occurredAt", "ip", "browser"],
  /** Contains a reset link. */
  "account-guessed-at": ["link", "occurredAt"],
  /** Contains an undo link. */
  "identity-linked": ["provider", "occurredAt", "ip", "browser", "link"],
  "identity-unlinked": ["provider", "occurredAt", "ip", "browser"],
} as const satisfies Record<string, readonly string[]>;

export type MailName = keyof typeof MAILS;

/** One line each. */
export type MailValues<N extends MailName> = Record<(typeof MAILS)[N][number], string>;

export type NewMail = {
  [N in MailName]: {
    /** UUID of the cause, for deduplication. */
    id: string;
    /** UUID. */
    userId: string;
    /** Canonical form. */
    recipient: string;
    template: N;
    data: MailValues<N>;
  };
}[MailName];

/** Mails that strangers can cause, without reset links: see mail-budget.ts. */
export type StrangersMail = Extract<
  NewMail,
  { template: "verify-email" | "confirm-email-change" | "registration-attempt" | "address-in-use" }
>;

export interface MailContent {
  /** One line. */
  subject: string;
  text: string;
  html: string;
}
