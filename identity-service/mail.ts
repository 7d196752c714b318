/**
 * Every mail there is, with the values that its templates may show. A new mail is a row here and its three files in
 * `mail-templates/`.
 */
export const MAILS = {
  /** A refresh token was used twice, and its session has been ended. */
  "refresh-reuse": ["occurredAt", "ip", "browser"],
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

/** What the recipient reads. */
export interface MailContent {
  /** One line. */
  subject: string;
  text: string;
  html: string;
}
