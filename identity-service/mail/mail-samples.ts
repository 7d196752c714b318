import { createLinkTokens, type LinkPurpose, storedLink } from "./links.ts";
import { MAILS, type MailContent, type MailName, type MailValue } from "./mail.ts";
import type { MailBrand, MailTemplates } from "./mail-templates.ts";

export interface SampleMail extends MailContent {
  name: MailName;
  language: string;
}

const ID = "019a0000-0000-7000-8000-000000000001";
/** Opens nothing: no service has this key. */
const NO_KEY = Buffer.alloc(32);

const LINKS: Readonly<Partial<Record<MailName, LinkPurpose>>> = {
  "verify-email": "verify_email",
  "reset-password": "reset_password",
  invitation: "reset_password",
  "confirm-email-change": "confirm_email_change",
  "confirm-vouched-email": "confirm_email_change",
  "email-changed": "undo_email_change",
  "account-guessed-at": "reset_password",
};

const OCCURRED_AT = "2031-01-02T03:04:05.000Z";
const EARLIER = "2030-11-12T13:14:15.000Z";

/** The longest of each kind: lists have every phrase that may be in them. */
const VALUES: Readonly<Record<Exclude<(typeof MAILS)[MailName][number], "link">, MailValue>> = {
  occurredAt: OCCURRED_AT,
  until: "2031-02-01T03:04:05.000Z",
  addedAt: EARLIER,
  ip: "203.0.113.7",
  browser: [{ phrase: "device", values: { browser: "Firefox", system: "Windows" } }],
  codesLeft: "7",
  provider: "Google",
  webhook: "Shop of ACME",
  claim: [{ phrase: "claimed-by-provider", values: { provider: "Google" } }],
  removed: [
    { phrase: "earlier-password" },
    { phrase: "provider-login-since", values: { provider: "Google", linkedAt: EARLIER } },
    { phrase: "passkey-since", values: { addedAt: EARLIER } },
    { phrase: "second-factor-since", values: { enabledAt: EARLIER } },
  ],
  left: [{ phrase: "provider-login", values: { provider: "GitLab" } }],
};

/** As they would be sent, of an invented account. @param origin where links lead. */
export function sampleMails(
  templates: MailTemplates,
  { brand, origin }: { brand: MailBrand; origin: string },
): SampleMail[] {
  const links = createLinkTokens(NO_KEY, origin);
  return (Object.keys(MAILS) as MailName[]).flatMap((name) => {
    const link = storedLink(LINKS[name] ?? "undo_access_change", ID);
    const values = links.completed({ ...VALUES, link });
    return templates.languages.map((language) => ({
      name,
      language,
      ...templates.render(name, values, { language, timeZone: null }, brand),
    }));
  });
}
