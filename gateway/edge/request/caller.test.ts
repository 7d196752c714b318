import type { FastifyRequest } from "fastify";
import { expect, test } from "vitest";
import { ada, completedLogin, send, testGateway } from "../../testing/test-gateway.ts";
import { clientIp, userAgent } from "./caller.ts";

async function addressSeen(trusted: readonly string[], forwardedFor?: string): Promise<string> {
  let seen = "";
  const { app } = testGateway({
    isTrustedProxy: (address) => trusted.includes(address ?? ""),
    identity: {
      login: async ({ clientIp }) => {
        seen = clientIp;
        return completedLogin();
      },
    },
  });
  const headers = forwardedFor === undefined ? {} : { "x-forwarded-for": forwardedFor };
  await send(app, { method: "POST", url: "/auth/login", body: { email: ada.email, password: "x" }, headers });
  return seen;
}

test("the client's address is the peer's, whatever the client says", async () => {
  expect(await addressSeen([])).toBe("127.0.0.1");
  expect(await addressSeen([], "203.0.113.9")).toBe("127.0.0.1");
});

test("behind trusted proxies it is the first from the right that is not one of them", async () => {
  expect(await addressSeen(["127.0.0.1"], "203.0.113.9")).toBe("203.0.113.9");
  expect(await addressSeen(["127.0.0.1"], "1.1.1.1, 203.0.113.9")).toBe("203.0.113.9");
  expect(await addressSeen(["127.0.0.1", "10.0.0.1"], "203.0.113.9, 10.0.0.1")).toBe("203.0.113.9");
  expect(await addressSeen(["127.0.0.1"], "::ffff:203.0.113.9")).toBe("203.0.113.9");
  expect(await addressSeen(["127.0.0.1"], "::ffff:198.51.100.200")).toBe("198.51.100.200");
});

test("an address may come with its port", async () => {
  expect(await addressSeen(["127.0.0.1"], "203.0.113.9:5678")).toBe("203.0.113.9");
  expect(await addressSeen(["127.0.0.1"], "[2001:db8::9]:443")).toBe("2001:db8::9");
  expect(await addressSeen(["127.0.0.1"], "[2001:db8::9]")).toBe("2001:db8::9");
  expect(await addressSeen(["127.0.0.1"], "[::ffff:203.0.113.9]:443")).toBe("203.0.113.9");
  expect(await addressSeen(["127.0.0.1"], "203.0.113.9:port")).toBe("127.0.0.1");
});

test("what is no address is not taken for one", async () => {
  expect(await addressSeen(["127.0.0.1"], "'; drop table entries; --")).toBe("127.0.0.1");
});

test("an IPv6 address that is no mapped IPv4 address stays as it is", async () => {
  expect(await addressSeen(["127.0.0.1"], "2001:db8::ffff:203.0.113.9")).toBe("2001:db8::ffff:203.0.113.9");
  expect(await addressSeen(["127.0.0.1"], "::ffff:203.0.113.9%eth0")).toBe("::ffff:203.0.113.9%eth0");
});

test("a connection that has ended has no address", () => {
  const request = { socket: {}, headers: {}, ip: "203.0.113.9" } as FastifyRequest;
  expect(clientIp(request)).toBe("");
});

/** As Node gives the bytes of a header. */
const sent = (bytes: Buffer) =>
  userAgent({ headers: { "user-agent": bytes.toString("latin1") } } as unknown as FastifyRequest);

test.each(["Mozilla/5.0", "Überweisung/1.0", "支付/2", "Zahlung 💶", ""])(
  "%j in UTF-8 is kept as it is",
  (text) => {
    expect(sent(Buffer.from(text))).toBe(text);
  },
);

test("what is no UTF-8 is Latin-1", () => {
  expect(sent(Buffer.from("Gerät", "latin1"))).toBe("Gerät");
});

test("512 characters are kept, and no half of one", () => {
  expect(sent(Buffer.from("ü".repeat(2_000)))).toBe("ü".repeat(512));
  const kept = sent(Buffer.from(`${"a".repeat(511)}💶`));
  expect(kept.isWellFormed()).toBe(true);
  expect(kept.length).toBeLessThanOrEqual(512);
});
