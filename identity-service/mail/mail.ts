/**
 * Every mail there is, with the values that its templates may show. A new mail is a row here and its three files in
 * `mail-templates/`.
 */
export const MAILS = {
  /** A refresh token was used twice, and its session has been ended. */
  "refresh-reuse": ["occurredAt", "ip", "browser"],
  /** The second factor was turned on. `link` takes that back. */
  "mfa-enabled": ["occurredAt", "ip", "browser", "link"],
  /** It was turned off. */
  "mfa-disabled": ["occurredAt", "ip", "browser"],
  /** Its recovery codes were replaced. */
  "recovery-codes-renewed": ["occurredAt", "ip", "browser"],
  /** One of them was used. */
  "recovery-code-used": ["occurredAt", "ip", "browser", "codesLeft"],
  /** Somebody who has the password gives wrong codes of the second factor. */
  "mfa-guessed": ["occurredAt", "ip", "browser"],
  /** An account was made with this address. `link` is kept as `links.ts` says, and completed when the mail is sent. */
  "verify-email": ["link"],
  /** Somebody forgot a password. */
  "reset-password": ["link"],
  /** A password was set anew by its owner. */
  "password-changed": ["occurredAt"],
  /** A password was set anew by a mailed link. `removed` and `left` are phrases: other ways to log in. */
  "password-reset": ["occurredAt", "removed", "left"],
  /** The mailbox's owner has taken over an account whose credentials were never proven with it. Each value is a phrase. */
  "account-claimed": ["occurredAt", "claim", "removed"],
  /** To the address that an account is to have. */
  "confirm-email-change": ["link"],
  /** To the address that an account had, with the way back. */
  "email-changed": ["link", "occurredAt"],
  /** To the owner of an address that somebody wanted to have. */
  "address-in-use": ["occurredAt"],
  /** To the owner of an address that somebody wanted to register. */
  "registration-attempt": ["occurredAt"],
  /** A login on a device that was not known, of a user who had logged in before. */
  "new-device": ["occurredAt", "ip", "browser"],
  /** Its password was guessed at until logins had to wait. `link` as in `reset-password`. */
  "account-guessed-at": ["link", "occurredAt"],
  /** An account at an identity provider can log in from now on. `link` takes that back. */
  "identity-linked": ["provider", "occurredAt", "ip", "browser", "link"],
  /** It cannot any more. */
  "identity-unlinked": ["provider", "occurredAt", "ip", "browser"],
} as const satisfies Record<string, readonly string[]>;

export type MailName = keyof typeof MAILS;

/** What is inserted into a mail's templates: each a line of text. */
export type MailValues<N extends MailName> = Record<(typeof MAILS)[N][number], string>;

/** A mail as its cause asks for it. */
export type NewMail = {
  [N in MailName]: {
    /** UUID of the cause: one mail each. */
    id: string;
    /** UUID. */
    userId: string;
    /** Canonical address. */
    recipient: string;
    template: N;
    data: MailValues<N>;
  };
}[MailName];

/** Mails that a stranger can cause, besides reset links: see mail-budget.ts. */
export type StrangersMail = Extract<
  NewMail,
  { template: "verify-email" | "confirm-email-change" | "registration-attempt" | "address-in-use" }
>;

/** What the recipient reads. */
export interface MailContent {
  /** One line. */
  subject: string;
  text: string;
  html: string;
}
