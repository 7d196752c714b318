/** The operator's. The gateway has written it into the document. */
export const BRAND = document.querySelector<HTMLMetaElement>("meta[name=application-name]")?.content ?? "";

/** An address that the gateway has written into the document. Undefined: there is none. */
export const addressOf = (
  relation: "help" | "privacy-policy" | "terms-of-service" | "mailbox" | "logo",
): string | undefined => document.querySelector<HTMLLinkElement>(`link[rel=${relation}]`)?.href;
