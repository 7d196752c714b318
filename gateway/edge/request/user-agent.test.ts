import type { FastifyRequest } from "fastify";
import { expect, test } from "vitest";
import { userAgent } from "./user-agent.ts";

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
