import { expect, test } from "vitest";
import { describeBrowser } from "./describe-origin.ts";
import { MailTemplates } from "./mail-templates.ts";

const WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)";

test.each([
  ["Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:143.0) Gecko/20100101 Firefox/143.0", "Firefox on Windows"],
  [`Mozilla/5.0 (X11; Linux x86_64) ${WEBKIT} Chrome/140.0.0.0 Safari/537.36`, "Chrome on Linux"],
  [`Mozilla/5.0 (Windows NT 10.0) ${WEBKIT} Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0`, "Edge on Windows"],
  [`Mozilla/5.0 (Windows NT 10.0) ${WEBKIT} Chrome/140.0.0.0 Safari/537.36 OPR/124.0`, "Opera on Windows"],
  [`Mozilla/5.0 (Linux; Android 10; K) ${WEBKIT} Chrome/140.0.0.0 Mobile Safari/537.36`, "Chrome on Android"],
  [
    `Mozilla/5.0 (Linux; Android 14) ${WEBKIT} SamsungBrowser/28.0 Chrome/130.0 Safari/537.36`,
    "Samsung Internet on Android",
  ],
  [
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/18.6 Safari/605.1.15",
    "Safari on macOS",
  ],
  [
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 Version/18.6 Mobile/15E148 Safari/604.1",
    "Safari on iOS",
  ],
  [`Mozilla/5.0 (X11; Linux x86_64) ${WEBKIT} HeadlessChrome/140.0.0.0 Safari/537.36`, "Chrome on Linux"],
  ["curl/8.5.0", "curl"],
  ["SomeApp/1.0 (Android 14)", "Android"],
  ["", "unknown"],
  ["Call +1 555 0100 or open https://evil.example to unlock your account", "unknown"],
  ["Firefox/1 on https://evil.example <a href=x>Linux</a>\r\nBcc: eve@evil.example", "Firefox on Linux"],
])("%j is %j", (userAgent, description) => {
  const values = { occurredAt: "2031-01-02T03:04:05Z", ip: "192.0.2.1", browser: describeBrowser(userAgent) };
  expect(new MailTemplates().render("new-device", values).text).toContain(`Browser: ${description}\n`);
});
