import { v5 as uuidv5 } from "uuid";

/** Placeholders of the files in `mail-templates/`. */
export const MAILS = {
  "refresh-reuse": ["occurredAt", "ip", "browser"],
  "mfa-enabled": ["occurredAt", "ip", "browser", "link"],
  "mfa-disabled": ["occurredAt", "ip", "browser", "link"],
  "recovery-codes-renewed": ["occurredAt", "ip", "browser", "link"],
  "recovery-code-used": ["occurredAt", "ip", "browser", "codesLeft"],
  /** Wrong codes after the right password. */
  "mfa-guessed": ["occurredAt", "ip", "browser"],
  /** Completed at sending. */
  "verify-email": ["link"],
  "reset-password": ["link"],
  /** Its link leads to the first password of an account. */
  invitation: ["link"],
  "password-changed": ["occurredAt"],
  "password-reset": ["occurredAt", "removed", "left"],
  "account-claimed": ["occurredAt", "claim", "removed"],
  "confirm-email-change": ["link"],
  /** As an administrator asked: to the new address, and to the present one. */
  "confirm-vouched-email": ["link"],
  "email-change-begun": ["occurredAt"],
  "email-changed": ["link", "occurredAt"],
  /** Goes to the owner of an address that another user requested. */
  "address-in-use": ["occurredAt"],
  "registration-attempt": ["occurredAt"],
  "new-device": ["occurredAt", "ip", "browser"],
  "device-trusted": ["occurredAt", "ip", "browser", "until", "link"],
  "account-guessed-at": ["link", "occurredAt"],
  "passkey-added": ["occurredAt", "ip", "browser", "link"],
  "passkey-removed": ["occurredAt", "ip", "browser", "addedAt", "link"],
  /** A signature counter that did not grow. */
  "passkey-refused": ["occurredAt", "ip", "browser", "addedAt"],
  "identity-linked": ["provider", "occurredAt", "ip", "browser", "link"],
  "identity-unlinked": ["provider", "occurredAt", "ip", "browser"],
  "webhook-paused": ["webhook", "occurredAt"],
} as const satisfies Record<string, readonly string[]>;

export type MailName = keyof typeof MAILS;

/** Placeholders of the lines of `phrases.txt`. */
export const PHRASES = {
  help: ["link"],
  unknown: [],
  device: ["browser", "system"],
  nothing: [],
  "only-sessions": [],
  "earlier-password": [],
  "provider-login": ["provider"],
  "provider-login-since": ["provider", "linkedAt"],
  "all-passkeys": [],
  "passkey-since": ["addedAt"],
  "second-factor": [],
  "second-factor-since": ["enabledAt"],
  "claimed-by-reset": [],
  "claimed-by-provider": ["provider"],
  "claimed-by-link": [],
} as const satisfies Record<string, readonly string[]>;

export type PhraseName = keyof typeof PHRASES;

/** Words of ours inside a mail, in the language in which it is sent. */
export interface Phrase {
  phrase: PhraseName;
  values?: Readonly<Record<string, string>>;
}

/** Placeholders whose values are ISO 8601. They are written in the reader's language and time zone. */
export const TIMES: ReadonlySet<string> = new Set([
  "occurredAt",
  "until",
  "addedAt",
  "linkedAt",
  "enabledAt",
]);

/** Several phrases are listed. */
export type MailValue = string | readonly Phrase[];

type MailValues<N extends MailName> = Record<(typeof MAILS)[N][number], MailValue>;

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
  {
    template:
      | "verify-email"
      | "invitation"
      | "confirm-email-change"
      | "confirm-vouched-email"
      | "registration-attempt"
      | "address-in-use";
  }
>;

export interface MailContent {
  subject: string;
  text: string;
  html: string;
}

/** Arbitrary; the same in every version. */
const NAMESPACE = "6a1c7a52-3c6e-4f0e-9d44-5f6b5d1a7a10";
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** For at most one mail an hour. */
export function noticeId(template: string, userId: string, now: Date): string {
  return uuidv5(`${template} ${userId} ${Math.floor(now.getTime() / HOUR_MS)}`, NAMESPACE);
}

/** For at most one mail a UTC day. */
export function dailyNoticeId(template: string, userId: string, now: Date): string {
  return uuidv5(`${template} ${userId} day ${Math.floor(now.getTime() / DAY_MS)}`, NAMESPACE);
}
