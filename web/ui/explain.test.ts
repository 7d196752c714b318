import { beforeAll, expect, test, vi } from "vitest";
import { GatehouseError } from "#clients/browser/gateway-calls.ts";
import { typedEmail } from "#identity-service/users/valid-person.ts";
import { explain } from "./explain.ts";
import { de } from "./languages/de.ts";
import { en } from "./languages/en.ts";
import { chooseLanguage, startTexts } from "./text.ts";

beforeAll(async () => {
  const problems = { emailAscii: "only ASCII" };
  const kept = new Map<string, string>();
  vi.stubGlobal("localStorage", { getItem: kept.get.bind(kept), setItem: kept.set.bind(kept) });
  vi.stubGlobal("navigator", { languages: ["en"] });
  vi.stubGlobal("document", { documentElement: {}, querySelectorAll: () => [] });
  await startTexts(async (language) => ({ ...{ en, de }[language], problems }));
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
    await chooseLanguage(language);
    const details = [typedEmail(field, typed, false).problem];
    const error = new GatehouseError(400, { code: "validation_failed", details });
    expect(explain(error).fields).toEqual({ [field]: text });
  },
);
