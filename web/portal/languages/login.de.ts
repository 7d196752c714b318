import { de as shared } from "../../ui/languages/de.ts";
import type { SameTexts } from "../../ui/languages/en.ts";
import type { en } from "./login.en.ts";

export const de: SameTexts<typeof en> = {
  account: {
    profile: "Ihr Konto",
    security: "Sicherheit",
    approvals: "Freigaben",
    sessions: "Sitzungen",
    providers: "Verknüpfte Konten",
    console: "Konsole",
    logOut: "Abmelden",
  },
  login: {
    title: "Anmelden",
    email: "E-Mail-Adresse",
    password: "Passwort",
    submit: "Anmelden",
    or: "oder",
    passkey: "Mit Passkey anmelden",
    provider: "Weiter mit {{provider}}",
    forgot: "Passwort vergessen?",
    helpForgot: "Neues Passwort setzen",
    new: "Noch kein Konto?",
    register: "Registrieren",
    back: "Zurück zur Anmeldung",
    startAgain: "Abbrechen und als jemand anderes anmelden",
  },
};

/** With those that every page has: each file costs a request. */
export const texts = { ...shared, ...de };
