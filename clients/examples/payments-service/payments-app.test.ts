import { expect, test } from "vitest";
import { createLogger } from "#kit/telemetry/logger.ts";
import { TestVerifier } from "../../node/testing.ts";
import { createPaymentStore } from "./payment-store.ts";
import { buildPaymentsApp } from "./payments-app.ts";

const verifier = new TestVerifier();
const shop = { kind: "client", clientId: "shop" } as const;
const TOKENS: Record<string, string> = {
  ada: verifier.issue({ userId: "ada", role: "USER" }),
  bob: verifier.issue({ userId: "bob", role: "USER" }),
  admin: verifier.issue({ userId: "admin", role: "ADMIN" }),
  auditor: verifier.issue({ userId: "auditor", role: "AUDITOR" }),
  expired: verifier.issue({ userId: "ada", role: "USER" }),
  revoked: verifier.issue({ userId: "ada", role: "USER" }),
  reader: verifier.issue({ ...shop, scopes: ["payments:read"] }),
  writer: verifier.issue({ ...shop, scopes: ["payments:write"] }),
};
verifier.expire(TOKENS.expired ?? "");
verifier.revoke(TOKENS.revoked ?? "");

async function service(isDraining = () => false) {
  const app = await buildPaymentsApp({
    verifier,
    store: createPaymentStore(3),
    logger: createLogger("payments-service", "silent"),
    now: () => new Date("2026-01-01T00:00:00Z"),
    isDraining,
  });
  const call = (
    method: "GET" | "POST" | "DELETE",
    url: string,
    token: string,
    body?: unknown,
    headers = {},
  ) =>
    app.inject({
      method,
      url,
      headers: {
        authorization: `Bearer ${TOKENS[token]}`,
        ...(body !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      ...(body !== undefined && { payload: typeof body === "string" ? body : JSON.stringify(body) }),
    });
  return { app, call };
}

const order = { amount: 1_250, currency: "EUR", payee: "Bob", reference: "Invoice 7" };

test("users create payments, owners and administrators read them, and administrators delete them", async () => {
  const { call } = await service();
  const made = await call("POST", "/payments", "ada", order);
  expect(made.statusCode).toBe(201);
  const { payment } = made.json().data;
  expect(payment).toEqual({ id: payment.id, ...order, userId: "ada", createdAt: "2026-01-01T00:00:00.000Z" });

  expect((await call("GET", "/payments", "ada")).json().data.payments).toEqual([payment]);
  expect((await call("GET", "/payments", "bob")).json().data.payments).toEqual([]);
  expect((await call("GET", "/payments", "admin")).json().data.payments).toEqual([payment]);
  expect((await call("GET", `/payments/${payment.id}`, "bob")).statusCode).toBe(404);
  expect((await call("DELETE", `/payments/${payment.id}`, "ada")).statusCode).toBe(403);
  expect((await call("DELETE", `/payments/${payment.id}`, "admin")).statusCode).toBe(200);
  expect((await call("DELETE", `/payments/${payment.id}`, "admin")).json().error.code).toBe("not_found");
});

test("identity headers are ignored: only the token counts", async () => {
  const { app, call } = await service();
  const headers = { "x-user-id": "admin", "x-user-role": "ADMIN" };
  const alone = await app.inject({ url: "/payments", headers });
  expect([alone.statusCode, alone.json().error.code]).toEqual([401, "token_missing"]);
  await call("POST", "/payments", "bob", order);
  expect((await call("GET", "/payments", "ada", undefined, headers)).json().data.payments).toEqual([]);
});

test.each([
  ["expired", 401, "token_expired"],
  ["revoked", 401, "token_invalid"],
  ["auditor", 403, "forbidden"],
])("%s: %i %s", async (token, status, code) => {
  const response = await (await service()).call("GET", "/payments", token);
  expect([response.statusCode, response.json().error.code]).toEqual([status, code]);
});

test.each<{ body: unknown; fields: string[] }>([
  { body: {}, fields: ["amount", "currency", "payee", "reference"] },
  { body: { ...order, amount: 0 }, fields: ["amount"] },
  { body: { ...order, amount: -5 }, fields: ["amount"] },
  { body: { ...order, amount: 12.5 }, fields: ["amount"] },
  { body: { ...order, amount: "1250" }, fields: ["amount"] },
  { body: { ...order, amount: 1e15 }, fields: ["amount"] },
  { body: { ...order, currency: "eur" }, fields: ["currency"] },
  { body: { ...order, currency: "ZZZ" }, fields: ["currency"] },
  { body: { ...order, payee: " ", reference: "\u0000" }, fields: ["payee", "reference"] },
  { body: { ...order, userId: "bob" }, fields: ["userId"] },
  { body: '{"amount":1,"amount":1000}', fields: ["amount"] },
])("a wrong order is refused with every failing field: $body", async ({ body, fields }) => {
  const response = await (await service()).call("POST", "/payments", "ada", body);
  expect(response.statusCode).toBe(400);
  const { code, details } = response.json().error;
  expect(code).toBe("validation_failed");
  expect(details.map(({ field }: { field: string }) => field)).toEqual(fields);
});

test("a body that is not JSON is refused with 415 or 400, never 500", async () => {
  const { call } = await service();
  const text = await call("POST", "/payments", "ada", "amount=1", { "content-type": "text/plain" });
  expect(text.json().error.code).toBe("unsupported_media_type");
  expect((await call("POST", "/payments", "ada", "{")).json().error.code).toBe("bad_request");
  expect((await call("POST", "/payments", "ada", " ".repeat(16_385))).json().error.code).toBe(
    "payload_too_large",
  );
});

test("the store keeps the latest payments and drops the oldest", async () => {
  const { call } = await service();
  for (const reference of ["1", "2", "3", "4"])
    await call("POST", "/payments", "ada", { ...order, reference });
  const { payments } = (await call("GET", "/payments", "ada")).json().data;
  expect(payments.map((payment: { reference: string }) => payment.reference)).toEqual(["4", "3", "2"]);
});

test("while the process drains, responses close their connections", async () => {
  let isDraining = false;
  const { call } = await service(() => isDraining);
  expect((await call("GET", "/payments", "ada")).headers.connection).toBe("keep-alive");
  isDraining = true;
  const last = await call("GET", "/payments", "ada");
  expect([last.statusCode, last.headers.connection]).toEqual([200, "close"]);
});

test.each([
  { url: `/payments/${"a".repeat(200)}`, status: 414, code: "uri_too_long" },
  { url: "/payments/%zz", status: 400, code: "bad_request" },
])("what the router refuses is answered in the same shape: $status", async ({ url, status, code }) => {
  const { call } = await service();
  const response = await call("GET", url, "bob");
  expect(response.statusCode).toBe(status);
  expect(response.json()).toMatchObject({ success: false, error: { code } });
});

test("above 100.00, payments go to the payer's own saved payees only", async () => {
  const { call } = await service();
  const large = { ...order, amount: 10_001 };
  expect((await call("POST", "/payments", "ada", { ...order, amount: 10_000 })).statusCode).toBe(201);
  const refused = async (token: string, body: object) => {
    const response = await call("POST", "/payments", token, body);
    expect([response.statusCode, response.json().error.details]).toMatchObject([
      400,
      [{ field: "payee", code: "unknown_payee" }],
    ]);
  };
  await refused("ada", large);
  expect((await call("POST", "/payees", "ada", { name: "Bob" })).statusCode).toBe(201);
  expect((await call("POST", "/payees", "ada", { name: "Bob" })).statusCode).toBe(201);
  expect((await call("GET", "/payees", "ada")).json().data.payees).toEqual([{ name: "Bob" }]);
  expect((await call("POST", "/payments", "ada", large)).statusCode).toBe(201);
  await refused("ada", { ...large, payee: "bob" });
  await refused("bob", large);
  expect((await call("POST", "/payees", "ada", { name: "" })).statusCode).toBe(400);
});

test("a user saves at most 100 payees", async () => {
  const { call } = await service();
  const add = async (name: string) => (await call("POST", "/payees", "ada", { name })).statusCode;
  for (let count = 1; count <= 100; count += 1) expect(await add(`payee ${count}`)).toBe(201);
  expect(await add("payee 101")).toBe(409);
  expect(await add("payee 1")).toBe(201);
});

test("one idempotency key is one payment of one user, and never another one", async () => {
  const { call } = await service();
  const pay = (token: string, body: object, key: string) =>
    call("POST", "/payments", token, body, { "idempotency-key": key });
  const first = await pay("ada", order, "k");
  const again = await pay("ada", order, "k");
  expect(again.statusCode).toBe(201);
  expect(again.json().data).toEqual(first.json().data);
  expect((await pay("ada", { ...order, amount: 1 }, "k")).json().error.code).toBe("conflict");
  expect((await pay("bob", order, "k")).statusCode).toBe(201);
  expect((await pay("ada", order, "other")).statusCode).toBe(201);
  expect((await pay("ada", order, "k".repeat(256))).statusCode).toBe(400);
  expect((await call("GET", "/payments", "admin")).json().data.payments).toHaveLength(3);
});

test("one approval is one payment, with the same key, another one or none; a key is one payment, too", async () => {
  const { call } = await service();
  const pay = async (approval: number, key?: string, body: object = order) => {
    const headers = { "x-approval-id": `019a0000-0000-7000-8000-00000000000${approval}` };
    const sent = { ...headers, ...(key !== undefined && { "idempotency-key": key }) };
    return (await call("POST", "/payments", "ada", body, sent)).json();
  };
  const { payment } = (await pay(1, "k")).data;
  expect((await pay(1, "k")).data.payment).toEqual(payment);
  expect((await pay(1)).data.payment).toEqual(payment);
  expect((await pay(1, "other")).data.payment).toEqual(payment);
  expect((await pay(2, "k")).data.payment).toEqual(payment);
  expect((await pay(1, undefined, { ...order, amount: 1 })).error.code).toBe("conflict");
  expect((await pay(3)).data.payment.id).not.toBe(payment.id);
  expect((await call("GET", "/payments", "admin")).json().data.payments).toHaveLength(2);
});

test.each([
  ["reader", 200, 403],
  ["writer", 403, 201],
])("a client that is a %s: lists with %d, pays with %d", async (token, listing, paying) => {
  const { call } = await service();
  expect((await call("GET", "/payments", token)).statusCode).toBe(listing);
  const order = { amount: 1250, currency: "EUR", payee: "ACME Ltd", reference: "invoice 7" };
  expect((await call("POST", "/payments", token, order)).statusCode).toBe(paying);
  expect((await call("GET", "/payees", token)).statusCode).toBe(403);
});
