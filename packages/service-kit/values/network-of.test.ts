import { expect, test } from "vitest";
import { networkOf, networksOf } from "./network-of.ts";

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

test.each([
  ["192.0.2.1", ["192.0.2.1"]],
  ["::ffff:192.0.2.1", ["192.0.2.1"]],
  ["", ["unknown"]],
  ["2001:db8:1:7ff::1", ["2001:db8:1:7ff::/64", "2001:db8:1:700::/56", "2001:db8:1::/48"]],
  ["fe80::1%eth0", ["fe80:0:0:0::/64", "fe80:0:0:0::/56", "fe80:0:0::/48"]],
])("%s is counted under its network and the wider ones %j", (ip, names) => {
  expect(networksOf(ip).map(({ name }) => name)).toEqual(names);
});

test("wider networks may use more than the smallest, but far less than all of their parts together", () => {
  expect(networksOf("2001:db8::1").map(({ times }) => times)).toEqual([1, 4, 16]);
});

test.each([
  ["2001:db8:1:7ff::1", "2001:db8:1:700::1", 1],
  ["2001:db8:1:7ff::1", "2001:db8:1:800::1", 2],
  ["2001:db8:1:7ff::1", "2001:db8:2:7ff::1", 3],
])("%s and %s differ in %i of their networks", (one, other, differing) => {
  const others = networksOf(other).map(({ name }) => name);
  expect(networksOf(one).filter(({ name }) => !others.includes(name))).toHaveLength(differing);
});
