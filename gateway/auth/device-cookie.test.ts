import { expect, test } from "vitest";
import type { LoginRequest } from "#proto/gatehouse/identity/v1/identity_service.ts";
import { deviceKeyOf } from "../edge/request/device-cookie.ts";
import { completedLogin, send, testGateway } from "../testing/test-gateway.ts";

const BODY = { email: "ada@example.com", password: "correct horse battery" };

function gateway(isTrustedProxy = () => false) {
  const asked: LoginRequest[] = [];
  const login = async (attempt: LoginRequest) => {
    asked.push(attempt);
    return completedLogin("1.user.device.123.proof_-");
  };
  return { asked, app: testGateway({ identity: { login }, isTrustedProxy }).app };
}

test.each([
  ["/auth/login", "/auth"],
  ["/v1/auth/login", "/v1/auth"],
])("%s has the browser keep the device token for %s", async (url, path) => {
  const answer = await send(gateway().app, { method: "POST", url, body: BODY });
  expect(answer.headers["set-cookie"]).toBe(
    `gatehouse_device=1.user.device.123.proof_-; Max-Age=15552000; Path=${path}; HttpOnly; SameSite=Lax`,
  );
  expect(answer.body).not.toContain("proof_-");
});

test("over HTTPS the cookie is Secure", async () => {
  const { app } = gateway(() => true);
  const headers = { "x-forwarded-proto": "https" };
  const answer = await send(app, { method: "POST", url: "/auth/login", body: BODY, headers });
  expect(answer.headers["set-cookie"]).toBe(
    "gatehouse_device=1.user.device.123.proof_-; Max-Age=15552000; Path=/auth; HttpOnly; Secure; SameSite=Lax",
  );
});

test.each([
  ["gatehouse_device=1.a.b.c", "1.a.b.c"],
  ["theme=dark; gatehouse_device=1.a.b.c; x=y", "1.a.b.c"],
  ["gatehouse_device=", ""],
  ["gatehouse_device=a b", ""],
  [`gatehouse_device=${"x".repeat(257)}`, ""],
  ["other_gatehouse_device=1.a.b.c", ""],
  ["gatehouse_device=1.a.b.c; gatehouse_device=2.x.y.z", "1.a.b.c"],
  // A value is not decoded: what our tokens are not made of is no token.
  ["gatehouse_device=%31.a.b.c", ""],
  ['gatehouse_device="1.a.b.c"', ""],
  ["gatehouse_device=1.a.b.c=d", ""],
])("with the cookie %s the device token is %j", async (cookie, expected) => {
  const { app, asked } = gateway();
  await send(app, { method: "POST", url: "/auth/login", body: BODY, headers: { cookie } });
  expect(asked.map(({ deviceToken }) => deviceToken)).toEqual([expected]);
});

test.each([
  ["new", "new"],
  ["2.a.b.c.d.e", "2.a.b.c.d.e"],
  ["a b", ""],
  ["", ""],
  ["x".repeat(257), ""],
])(
  "a client without cookies sends %j in a header, and gets the next token there and no cookie",
  async (header, expected) => {
    const { app, asked } = gateway();
    const headers = { "gatehouse-device": header };
    const answer = await send(app, { method: "POST", url: "/auth/login", body: BODY, headers });
    expect(asked.map(({ deviceToken }) => deviceToken)).toEqual([expected]);
    expect(answer.headers["gatehouse-device"]).toBe("1.user.device.123.proof_-");
    expect(answer.headers["set-cookie"]).toBeUndefined();
  },
);

test("the header goes before the cookie; without it no token is in a header", async () => {
  const { app, asked } = gateway();
  const cookie = "gatehouse_device=1.a.b.c";
  const both = { cookie, "gatehouse-device": "1.x.y.z" };
  await send(app, { method: "POST", url: "/auth/login", body: BODY, headers: both });
  expect(asked.map(({ deviceToken }) => deviceToken)).toEqual(["1.x.y.z"]);
  const answer = await send(app, { method: "POST", url: "/auth/login", body: BODY, headers: { cookie } });
  expect(answer.headers["gatehouse-device"]).toBeUndefined();
});

test("a device is recognised by what stays the same from login to login", () => {
  const key = deviceKeyOf("2.user.device.0.1234.proof");
  expect(key).toMatch(/^[\w-]{22}$/);
  expect(deviceKeyOf("2.user.device.1.5678.other_-")).toBe(key);
  for (const other of ["3.user.device.0.1.p", "2.other.device.0.1.p", "2.user.other.0.1.p"])
    expect(deviceKeyOf(other)).not.toBe(key);
});

test.each(["", "new", "2.user.device", "2..device.0", "x.user.device.0", "2.user..0"])(
  "%j is no device's token",
  (token) => expect(deviceKeyOf(token)).toBeUndefined(),
);
