/** The operator's. The gateway has written it into the document, and no page has set a title of its own yet. */
export const BRAND = document.title;

/** An address that the gateway has written into the document. Undefined: there is none. */
export const addressOf = (
  relation: "help" | "privacy-policy" | "terms-of-service" | "mailbox" | "logo",
): string | undefined => document.querySelector<HTMLLinkElement>(`link[rel=${relation}]`)?.href;
