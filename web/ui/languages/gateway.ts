/** Of the pages that the gateway writes itself: they are in no script. */
export const GATEWAY_TEXTS = {
  en: {
    lead: "The front door of this API.",
    account: "Log in, register, passkeys, sessions.",
    console: "For support, auditors and administrators.",
    api: "Every call, with an example.",
    document: "API document",
    documentText: "The same as OpenAPI 3.1, for programs.",
    home: "To the start page",
    mailbox: "Mailbox",
    scripts: "This page needs JavaScript",
    scriptsText: "Allow it for this page in your browser, and load the page again.",
  },
  de: {
    lead: "Der Eingang dieser API.",
    account: "Anmelden, Konto anlegen, Passkeys, Sitzungen.",
    console: "Für Support, Prüfer und Administratoren.",
    api: "Jeder Aufruf, mit einem Beispiel.",
    document: "API-Dokument",
    documentText: "Dasselbe als OpenAPI 3.1, für Programme.",
    home: "Zur Startseite",
    mailbox: "Postfach",
    scripts: "Diese Seite braucht JavaScript",
    scriptsText: "Erlauben Sie es für diese Seite in Ihrem Browser, und laden Sie sie neu.",
  },
} as const;
