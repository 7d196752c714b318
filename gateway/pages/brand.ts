import { escapeHtml } from "#kit/values/escape-html.ts";

/** What people see of the operator. */
export interface Brand {
  name: string;
  /** Addresses. */
  support?: string | undefined;
  privacy?: string | undefined;
  terms?: string | undefined;
  /** Where the mails are that this system sends, on a developer's machine. */
  mailbox?: string | undefined;
}

/** Relations of links, which the pages look for. @see HTML §4.6.7, RFC 6903 §2. */
const RELATIONS = {
  support: "help",
  privacy: "privacy-policy",
  terms: "terms-of-service",
  mailbox: "mailbox",
} as const;

/** Writes it into a document as data: the title is the name until a page has one of its own, and addresses are links of the head. */
export function brandedDocument(html: string, brand: Brand): string {
  const links = Object.entries(RELATIONS).flatMap(([kind, relation]) => {
    const url = brand[kind as keyof typeof RELATIONS];
    return url === undefined ? [] : [`<link rel="${relation}" href="${escapeHtml(url)}">`];
  });
  // As functions: a `$` in what is inserted has no meaning.
  return html
    .replace(/<title>[^<]*<\/title>/, () => `<title>${escapeHtml(brand.name)}</title>`)
    .replace("</head>", () => `${links.join("")}</head>`);
}
