import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { DomainError } from "#kit/values/errors.ts";
import { exchange, statuses } from "../testing/raw-socket.ts";
import { HOST, routesOf, testGateway } from "../testing/test-gateway.ts";

const PAYMENT = '{"amount":25000}';
let received: IncomingHttpHeaders[] = [];
const upstream = createServer((request, response) => {
  received.push(request.headers);
  request.resume().once("end", () => response.end("paid"));
});
let gateway: ReturnType<typeof testGateway>;
let port = 0;
let demanded: number[] = [];
/** The key of each used approval, as identity-service keeps it. */
let used = new Map<string, string>();

beforeAll(async () => {
  upstream.listen(0, "127.0.0.1");
  await once(upstream, "listening");
  const approval = { fields: ["/amount"], acr: 3 };
  const methods = { POST: { roles: ["USER"], action: "payments.create", approval } };
  const origin = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`;
  gateway = testGateway({
    routes: routesOf([{ prefix: "/payments", upstream: origin, methods }]),
    identity: {
      useApproval: async ({ token, acr, idempotencyHash }) => {
        demanded.push(acr);
        const key = Buffer.from(idempotencyHash).toString("hex");
        const before = used.get(token);
        if (before !== undefined && (before !== key || key === "")) throw new DomainError("approval_used");
        used.set(token, key);
        return { approvalId: "approval-1", method: "passkey", isRepeated: before !== undefined };
      },
    },
  });
  await gateway.app.listen({ port: 0, host: "127.0.0.1" });
  port = (gateway.app.server.address() as AddressInfo).port;
});

beforeEach(() => {
  received = [];
  demanded = [];
  used = new Map();
});

afterAll(async () => {
  await gateway.app.close();
  upstream.closeAllConnections();
  upstream.close();
});

async function pay(...headers: string[]): Promise<number | undefined> {
  const lines = [
    "POST /payments HTTP/1.1",
    `Host: ${HOST}`,
    "Authorization: Bearer user-token",
    "Content-Type: application/json",
    `Content-Length: ${PAYMENT.length}`,
    "Gatehouse-Approval: T",
    ...headers,
  ];
  const { text } = await exchange(port, Buffer.from(`${lines.join("\r\n")}\r\n\r\n${PAYMENT}`, "latin1"));
  return statuses(text)[0];
}

test("an approved call is repeated with the very key that was checked, and the upstream learns which is which", async () => {
  // A list in one line, and bytes beyond ASCII.
  const key = "a, b; \u00e9\u00ff";
  expect(await pay(`Idempotency-Key: ${key}`)).toBe(200);
  expect(await pay(`Idempotency-Key:   ${key}  `, "Connection: keep-alive", "X-Approval-Use: first")).toBe(
    200,
  );
  expect(received.map((headers) => headers["idempotency-key"])).toEqual([key, key]);
  expect(received.map((headers) => headers["x-approval-use"])).toEqual(["first", "repeated"]);
  expect(demanded).toEqual([3, 3]);
});

test.each([
  { what: "named in Connection", again: ["Idempotency-Key: a, b", "Connection: Idempotency-Key"] },
  { what: "in several lines", again: ["Idempotency-Key: a", "Idempotency-Key: b"] },
  { what: "with its type named in Connection", again: ["Idempotency-Key: a, b", "Connection: content-type"] },
])("an approved call whose key is $what is refused, and pays nothing", async ({ again }) => {
  expect(await pay("Idempotency-Key: a, b")).toBe(200);
  expect(await pay(...again)).toBe(400);
  expect(await pay("Idempotency-Key: a,b")).toBe(403);
  expect(received).toHaveLength(1);
});
