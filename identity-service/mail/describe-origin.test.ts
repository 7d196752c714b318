import { expect, test } from "vitest";
import { describeBrowser } from "./describe-origin.ts";
import { MailTemplates } from "./mail-templates.ts";

test.each([
  ["Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0", "Firefox on Linux"],
  ["curl/8.5.0", "curl"],
  ["SomeApp/1.0 (Android 14)", "Android"],
  ["", "unknown"],
  ["Call +1 555 0100 or open https://evil.example to unlock your account", "unknown"],
  ["Firefox/1 on https://evil.example <a href=x>Linux</a>\r\nBcc: eve@evil.example", "Firefox on Linux"],
])("mails call %j %j, and nothing of its text", (userAgent, description) => {
  const values = { occurredAt: "2031-01-02T03:04:05Z", ip: "192.0.2.1", browser: describeBrowser(userAgent) };
  expect(new MailTemplates().render("new-device", values).text).toContain(`Browser: ${description}\n`);
});
