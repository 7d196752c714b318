import { createHmac } from "node:crypto";
import { expect, test } from "vitest";
import { createDeviceTokens, DEVICE_TOKEN_TTL_S } from "../throttle/device-token.ts";

const device = {
  id: "0199a000-0000-7000-8000-00000000000d",
  userId: "0199a000-0000-7000-8000-000000000001",
  passwordEpoch: 7,
};
let nowMs = 1.8e12;
const tokens = createDeviceTokens(Buffer.alloc(32, 1), () => new Date(nowMs));

test("a token says which device of which user it is", () => {
  expect(tokens.read(tokens.issue(device))).toEqual({ ...device, issuedAtS: 1.8e9 });
});

test("it ends after 180 days", () => {
  const token = tokens.issue(device);
  nowMs += DEVICE_TOKEN_TTL_S * 1_000 - 1_000;
  expect(tokens.read(token)).toMatchObject(device);
  nowMs += 1_000;
  expect(tokens.read(token)).toBeUndefined();
});

test("a token of another key, for another user, or with another epoch or end is refused", () => {
  const token = tokens.issue(device);
  const other = createDeviceTokens(Buffer.alloc(32, 2), () => new Date(nowMs));
  expect(other.read(token)).toBeUndefined();
  expect(tokens.read(token.replace(device.userId, device.userId.replace(/1$/, "2")))).toBeUndefined();
  const [version, user, id, epoch, end, proof] = token.split(".");
  expect(tokens.read([version, user, id, epoch, Number(end) + 1, proof].join("."))).toBeUndefined();
  expect(tokens.read([version, user, id, Number(epoch) + 1, end, proof].join("."))).toBeUndefined();
});

test("a token of the first version, which had no epoch, is refused", () => {
  const text = ["1", device.userId, device.id, Math.floor(nowMs / 1_000) + 1_000].join(".");
  const proof = createHmac("sha256", Buffer.alloc(32, 1))
    .update(`gatehouse device token\n${text}`)
    .digest("base64url");
  expect(tokens.read(`${text}.${proof}`)).toBeUndefined();
});

test.each(["", ".", "....", "1.2.3.4.5", "x".repeat(10_000), "1.\0.\0.1.\0", "undefined"])(
  "%j is none",
  (text) => {
    expect(tokens.read(text)).toBeUndefined();
    expect(tokens.read(`${tokens.issue(device)}.${text}`)).toBeUndefined();
  },
);
