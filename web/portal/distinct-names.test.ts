import { expect, test } from "vitest";
import { distinctNames } from "./distinct-names.ts";

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
