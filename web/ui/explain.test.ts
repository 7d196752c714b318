import i18next from "i18next";
import { beforeAll, expect, test } from "vitest";
import { GatehouseError } from "#clients/browser/gateway-calls.ts";
import { typedEmail } from "#identity-service/users/valid-person.ts";
import { explain } from "./explain.ts";
import { de } from "./languages/de.ts";
import { en } from "./languages/en.ts";

beforeAll(async () => {
  const problems = { emailAscii: "only ASCII" };
  const resources = { en: { translation: { ...en, problems } }, de: { translation: { ...de, problems } } };
  await i18next.init({ lng: "en", resources });
});

test.each([
  ["en", "email", "jürgen@example.com", "only ASCII"],
  ["de", "email", "田中@example.com", "only ASCII"],
  ["en", "newEmail", "jürgen@example.com", "only ASCII"],
  ["en", "email", "jürgen", en.form.email],
  ["de", "newEmail", "ada", de.form.email],
] as const)(
  "in %s the field %s of %s says why the address is refused",
  async (language, field, typed, text) => {
    await i18next.changeLanguage(language);
    const details = [typedEmail(field, typed, false).problem];
    const error = new GatehouseError(400, { code: "validation_failed", details });
    expect(explain(error).fields).toEqual({ [field]: text });
  },
);
