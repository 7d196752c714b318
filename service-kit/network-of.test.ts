import { expect, test } from "vitest";
import { networkOf } from "./network-of.ts";

test.each([
  ["192.0.2.1", "192.0.2.1"],
  ["::ffff:192.0.2.1", "192.0.2.1"],
  ["2001:db8:0:7::1", "2001:db8:0:7::/64"],
  ["2001:DB8:0000:0007:ffff:1:2:3", "2001:db8:0:7::/64"],
  ["2001:db8::1", "2001:db8:0:0::/64"],
  ["2001:db8:0:7:1::192.0.2.1", "2001:db8:0:7::/64"],
  ["::1", "0:0:0:0::/64"],
  ["::", "0:0:0:0::/64"],
  ["fe80::1%eth0", "fe80:0:0:0::/64"],
  ["", "unknown"],
  ["not an address", "unknown"],
])("%s is counted under %s", (ip, network) => {
  expect(networkOf(ip)).toBe(network);
});

test("two addresses of one /64 are one network, of two they are not", () => {
  expect(networkOf("2001:db8:0:7::1")).toBe(networkOf("2001:db8:0:7:a:b:c:d"));
  expect(networkOf("2001:db8:0:7::1")).not.toBe(networkOf("2001:db8:0:8::1"));
});
