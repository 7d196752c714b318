import { createHash, randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { createLinkTokens, hashOfToken, LINK_LIFETIME_MS, LINK_PURPOSES, storedLink } from "./links.ts";
import { linkRefused } from "./use-link.ts";

const ID = "019a0000-0000-7000-8000-000000000001";
const key = randomBytes(32);
const links = createLinkTokens(key, "https://gatehouse.example");

test("a token has 256 bits, and is another one for each link and each key", () => {
  const token = links.tokenOf(ID);
  expect(Buffer.from(token, "base64url")).toHaveLength(32);
  expect(token).toBe(createLinkTokens(key, "https://other.example").tokenOf(ID));
  expect(token).not.toBe(links.tokenOf(ID.replace("1", "2")));
  expect(token).not.toBe(createLinkTokens(randomBytes(32), "https://gatehouse.example").tokenOf(ID));
});

test.each(LINK_PURPOSES)("a mail's %s link leads to the configured origin and has the token", (purpose) => {
  const values = { link: storedLink(purpose, ID), occurredAt: "now" };
  expect(JSON.stringify(values)).not.toContain(links.tokenOf(ID));
  const page = purpose.replaceAll("_", "-");
  expect(links.completed(values)).toEqual({
    link: `https://gatehouse.example/auth/${page}?token=${links.tokenOf(ID)}`,
    occurredAt: "now",
  });
});

test("a mail without a link of its own leads to the origin, one with a link of tomorrow is not sent", () => {
  expect(links.completed({ ip: "::1" })).toEqual({ ip: "::1", link: "https://gatehouse.example" });
  expect(() => links.completed({ link: `something_new:${ID}` })).toThrow("does not know");
});

test("only the SHA-256 of a token is stored", () => {
  const token = links.tokenOf(ID);
  expect(hashOfToken(token)).toEqual(createHash("sha256").update(token).digest());
});

test.each(["", "a", "x".repeat(44), `${"x".repeat(42)}=`, `${"x".repeat(42)}\n`, `${"x".repeat(43)}\u0000`])(
  "%j is no token",
  (text) => expect(hashOfToken(text)).toBeUndefined(),
);

test.each([`x verify_email:${ID}`, `verify_email:${ID}0`, "verify_email:", ID, ""])(
  "%j in a mail is no link of ours",
  (link) => expect(() => links.completed({ link })).toThrow("does not know"),
);

test("requested links last 24 hours, reset links half an hour, undo links a week", () => {
  const hourMs = 3_600_000;
  expect(LINK_LIFETIME_MS).toEqual({
    verify_email: 24 * hourMs,
    reset_password: hourMs / 2,
    confirm_email_change: 24 * hourMs,
    undo_email_change: 168 * hourMs,
    undo_access_change: 168 * hourMs,
  });
});

test("a link that sets a password is refused as such, every other as one of a verification", () => {
  expect(Object.fromEntries(LINK_PURPOSES.map((purpose) => [purpose, linkRefused(purpose).code]))).toEqual({
    verify_email: "verification_token_invalid",
    reset_password: "reset_token_invalid",
    confirm_email_change: "verification_token_invalid",
    undo_email_change: "verification_token_invalid",
    undo_access_change: "verification_token_invalid",
  });
});
