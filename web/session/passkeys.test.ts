import { expect, test } from "vitest";
import { GatehouseError } from "#clients/browser/gateway-calls.ts";
import { offerPasskeys } from "./passkeys.ts";

/** A browser, which has one request for a passkey at a time. */
function browser() {
  let pending = 0;
  let most = 0;
  let asked = 0;
  let answer: (error?: Error) => void = () => undefined;
  /** As `navigator.credentials.get`: it ends some time after its signal. */
  const ask = (signal: AbortSignal) =>
    new Promise<void>((resolve, reject) => {
      asked += 1;
      pending += 1;
      most = Math.max(most, pending);
      const end = (settle: () => void) => {
        pending -= 1;
        settle();
      };
      answer = (error) => end(error === undefined ? resolve : () => reject(error));
      signal.addEventListener("abort", () => setTimeout(() => end(() => reject(signal.reason as Error)), 5));
    });
  return { ask, answer: (error?: Error) => answer(error), asked: () => asked, most: () => most };
}
const always = async () => true;

test("a page that is left while the browser says what it can offers nothing any more", async () => {
  const { ask, asked } = browser();
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const end = offerPasskeys({ canOffer: () => promise, logIn: ask });
  const ended = end();
  resolve(true);
  await ended;
  expect(asked()).toBe(0);
});

test("whoever ends the offer may ask for another passkey when it has ended", async () => {
  const { ask, most } = browser();
  const end = offerPasskeys({ canOffer: always, logIn: ask });
  await expect.poll(most).toBe(1);
  await end();
  const modal = new AbortController();
  const other = ask(modal.signal).catch(() => undefined);
  expect(most()).toBe(1);
  modal.abort();
  await other;
});

test("an offer that expires is made again after it has ended, and one that was refused too", async () => {
  const { ask, answer, asked, most } = browser();
  const end = offerPasskeys({ canOffer: always, logIn: ask, offerMs: 20 });
  await expect.poll(asked).toBeGreaterThan(2);
  const before = asked();
  answer(new GatehouseError(401, { code: "passkey_invalid" }));
  await expect.poll(asked).toBeGreaterThan(before);
  await end();
  expect(most()).toBe(1);
});

test.each([
  ["has logged in", undefined],
  ["was cancelled", new DOMException("no", "NotAllowedError")],
  ["could not be sent", new GatehouseError(0, { code: "offline" })],
])("after a passkey that %s there is no other offer", async (_what, error) => {
  const { ask, answer, asked } = browser();
  const end = offerPasskeys({ canOffer: always, logIn: ask });
  await expect.poll(asked).toBe(1);
  answer(error);
  await end();
  expect(asked()).toBe(1);
});
