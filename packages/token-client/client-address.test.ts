import { expect, test } from "vitest";
import { clientAddress } from "./client-address.ts";

test.each(["192.0.2.1", "172.15.0.1", "172.32.0.1", "100.128.0.1", "2001:db8::1", "::ffff:192.0.2.1"])(
  "%s may be a client",
  (address) => {
    expect(clientAddress(address)).toBe(address);
  },
);

test.each([
  "127.0.0.1",
  "10.1.2.3",
  "172.16.0.1",
  "172.31.255.255",
  "192.168.1.1",
  "100.64.0.1",
  "169.254.1.1",
  "::ffff:10.1.2.3",
  "::1",
  "fd00::1",
  "fe80::1%eth0",
  "unix",
  "",
  undefined,
])("%s speaks for nobody, or for many", (address) => {
  expect(clientAddress(address)).toBeUndefined();
});
