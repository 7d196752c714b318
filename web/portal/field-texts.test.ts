import { expect, test } from "vitest";
import { distinctNames, moneyText } from "./field-texts.ts";

const text = (amount: unknown, currency: unknown, locale = "en") =>
  // Intl writes a space that does not break.
  moneyText({ "/amount": amount, "/currency": currency }, "/amount", locale)?.replaceAll("\u00a0", " ");

test.each([
  [25_000, "EUR", "en", "€250.00"],
  [25_000, "EUR", "de", "250,00 €"],
  [1_234_567, "USD", "en", "$12,345.67"],
  [5, "GBP", "en", "£0.05"],
  [0, "CHF", "de", "0,00 CHF"],
  [25_000, "JPY", "en", "¥25,000"],
  [25_000, "KWD", "en", "KWD 25.000"],
  [25_000, "CLF", "en", "CLF 2.5000"],
  // Browsers would write these without decimals.
  [25_000, "HUF", "en", "HUF 250.00"],
  [25_000, "IDR", "de", "250,00 IDR"],
  // Two doubles are further apart than a cent here.
  [Number.MAX_SAFE_INTEGER, "EUR", "en", "€90,071,992,547,409.91"],
])("%d minor units of %s are, in %s: %s", (amount, currency, locale, expected) => {
  expect(text(amount, currency, locale)).toBe(expected);
});

test.each([
  ["no whole number", 250.5, "EUR"],
  ["a negative number", -25_000, "EUR"],
  ["more than a double counts", 2 ** 53, "EUR"],
  ["a text", "25000", "EUR"],
  ["a currency in small letters", 25_000, "eur"],
  ["no currency of ISO 4217", 25_000, "BTC"],
  ["gold, which has no minor unit", 25_000, "XAU"],
  ["two codes at once", 25_000, "EUR USD"],
  ["no code", 25_000, ""],
  ["no currency", 25_000, undefined],
])("%s is left as it was sent", (_what, amount, currency) => {
  expect(text(amount, currency)).toBeUndefined();
});

test("the currency is the one beside the amount", () => {
  const details = { "/total/amount": 100, "/total/currency": "EUR", "/fee/amount": 5, "/currency": "USD" };
  expect(moneyText(details, "/total/amount", "en")).toBe("€1.00");
  expect(moneyText(details, "/fee/amount", "en")).toBeUndefined();
  expect(moneyText({ "/limit": 100, "/currency": "EUR" }, "/limit", "en")).toBeUndefined();
});

test("of fields with equal names each is shown with its pointer, others by their name alone", () => {
  const names = distinctNames(["Amount", "Amount", "Payee"], ["/fee/amount", "/amount", "/payee"]);
  expect(names).toEqual(["Amount (/fee/amount)", "Amount (/amount)", "Payee"]);
});

test("a pointer that reads like another field's name is no equal of it", () => {
  expect(distinctNames(["amount", "Amount", "a"], ["/x", "/amount", "/a"])).toEqual([
    "amount (/x)",
    "Amount (/amount)",
    "a",
  ]);
});
