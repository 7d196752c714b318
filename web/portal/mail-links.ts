/** The pages that links in mails open, by the name of their call: `POST /auth/<name>`. */
export const MAIL_LINKS = [
  "verify-email",
  "disown-account",
  "reset-password",
  "confirm-email-change",
  "undo-email-change",
  "undo-access-change",
] as const;

export type MailLink = (typeof MAIL_LINKS)[number];

const TOKEN = /^#token=([A-Za-z0-9_-]{1,200})$/;

/** From the fragment, which no server sees; it is removed from the address bar and from the history. */
export function takeLinkToken(): string {
  const [, token = ""] = TOKEN.exec(location.hash) ?? [];
  if (token !== "") history.replaceState(history.state, "", location.pathname);
  return token;
}
