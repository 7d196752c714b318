import { expect, test } from "vitest";
import { nameDevice } from "./name-device.ts";

const WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)";
const APPLE = "AppleWebKit/605.1.15 (KHTML, like Gecko)";
const PHONE = `Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) ${APPLE}`;
const TABLET = `Mozilla/5.0 (iPad; CPU OS 16_7 like Mac OS X) ${APPLE}`;

test.each([
  ["Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:143.0) Gecko/20100101 Firefox/143.0", "Firefox", "Windows"],
  [`Mozilla/5.0 (X11; Linux x86_64) ${WEBKIT} Chrome/140.0.0.0 Safari/537.36`, "Chrome", "Linux"],
  [`Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) ${WEBKIT} Chrome/140.0 Safari/537.36`, "Chrome", "ChromeOS"],
  [`Mozilla/5.0 (Windows NT 10.0) ${WEBKIT} Chrome/140.0 Safari/537.36 Edg/140.0`, "Edge", "Windows"],
  [`Mozilla/5.0 (Windows NT 10.0) ${WEBKIT} Chrome/140.0 Safari/537.36 OPR/124.0`, "Opera", "Windows"],
  [`Mozilla/5.0 (Linux; Android 10; K) ${WEBKIT} Chrome/140.0 Mobile Safari/537.36`, "Chrome", "Android"],
  [
    `Mozilla/5.0 (Linux; Android 14) ${WEBKIT} SamsungBrowser/28.0 Chrome/130.0 Safari/537.36`,
    "Samsung Internet",
    "Android",
  ],
  [
    `Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) ${APPLE} Version/18.6 Safari/605.1.15`,
    "Safari",
    "macOS",
  ],
  [`${PHONE} Version/18.6 Mobile/15E148 Safari/604.1`, "Safari", "iPhone"],
  [`${PHONE} CriOS/140.0 Mobile/15E148 Safari/604.1`, "Chrome", "iPhone"],
  [`${PHONE} EdgiOS/140.0 Version/18.0 Mobile/15E148 Safari/604.1`, "Edge", "iPhone"],
  [`${TABLET} FxiOS/143.0 Mobile/15E148 Safari/605.1.15`, "Firefox", "iPad"],
  [`Mozilla/5.0 (X11; Linux x86_64) ${WEBKIT} HeadlessChrome/140.0 Safari/537.36`, "Chrome", "Linux"],
  ["curl/8.5.0", "curl", ""],
  ["SomeApp/1.0 (Android 14)", "", "Android"],
  ["", "", ""],
  ["Call +1 555 0100 or open https://evil.example to unlock your account", "", ""],
  ["Firefox/1 on https://evil.example <a href=x>Linux</a>\r\nBcc: eve@evil.example", "Firefox", "Linux"],
])("%j is %j, %j", (userAgent, browser, system) =>
  expect(nameDevice(userAgent)).toEqual({ browser, system }),
);
