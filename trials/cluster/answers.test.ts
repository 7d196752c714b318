import { expect, test } from "vitest";
import { type Check, isAccountOf, isPayeeList, isPaymentOf, isRefused, isSessionOf } from "./answers.ts";

const order = { amount: 1250, currency: "EUR", payee: "ACME Ltd", reference: "invoice 7" };
const tokenOf = (sub: string) => `e30.${Buffer.from(JSON.stringify({ sub })).toString("base64url")}.c2ln`;
const session = (sub: string, refreshToken: unknown = "new") => ({
  status: 200,
  data: { accessToken: tokenOf(sub), refreshToken },
});
const paid = (payment: object) => ({ status: 201, data: { payment: { id: "1", ...payment } } });

const right: [string, Check, Parameters<Check>[0]][] = [
  ["a payment", isPaymentOf(order, "ada"), paid({ ...order, userId: "ada" })],
  [
    "an account",
    isAccountOf("ada@example.com"),
    { status: 200, data: { user: { email: "ada@example.com" } } },
  ],
  ["a session", isSessionOf("ada", "former"), session("ada")],
  ["a refusal", isRefused, { status: 401, code: "token_missing" }],
  ["payees", isPayeeList, { status: 200, data: { payees: [] } }],
];

test.each(right)("a right answer passes: %s", (_, check, answer) => {
  expect(check(answer)).toBeUndefined();
});

test.each(right)("a failure names status and code: %s", (_, check) => {
  expect(check({ status: 503, code: "service_unavailable" })).toBe("503 service_unavailable");
  expect(check({ status: 0, code: "ECONNRESET" })).toBe("0 ECONNRESET");
});

const wrong: [string, Check, Parameters<Check>[0]][] = [
  ["another amount", isPaymentOf(order, "ada"), paid({ ...order, amount: 1, userId: "ada" })],
  ["another user's payment", isPaymentOf(order, "ada"), paid({ ...order, userId: "ben" })],
  [
    "another user's account",
    isAccountOf("ada@example.com"),
    { status: 200, data: { user: { email: "b@x.de" } } },
  ],
  ["another user's token", isSessionOf("ada"), session("ben")],
  [
    "a token that is none",
    isSessionOf("ada"),
    { status: 200, data: { accessToken: "x", refreshToken: "y" } },
  ],
  ["no refresh token", isSessionOf("ada"), session("ada", 7)],
  ["the refresh token that was used", isSessionOf("ada", "former"), session("ada", "former")],
  ["a revoked token that is taken", isRefused, { status: 200, data: { user: {} } }],
  ["a list that is none", isPayeeList, { status: 200, data: {} }],
];

test.each(wrong)("a wrong answer with the right status is a failure: %s", (_, check, answer) => {
  expect(check(answer)).toMatch(/^20[01]/);
});
