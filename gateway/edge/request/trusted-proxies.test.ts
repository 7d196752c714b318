import { BlockList } from "node:net";
import { expect, test } from "vitest";
import { trustedProxies, withoutPort } from "./trusted-proxies.ts";

function networks(): BlockList {
  const list = new BlockList();
  list.addSubnet("10.1.0.0", 16, "ipv4");
  list.addSubnet("2001:db8::", 32, "ipv6");
  return list;
}

test("an answer is the same at the second time, and another address has its own", () => {
  const isTrusted = trustedProxies(networks());
  for (let round = 0; round < 2; round += 1) {
    expect(isTrusted("10.1.2.3")).toBe(true);
    expect(isTrusted("2001:db8::1")).toBe(true);
    expect(isTrusted("::ffff:10.1.2.3")).toBe(true);
    expect(isTrusted("10.2.0.1")).toBe(false);
    expect(isTrusted("2001:db9::1")).toBe(false);
    expect(isTrusted("rubbish")).toBe(false);
    expect(isTrusted("")).toBe(false);
    expect(isTrusted(undefined)).toBe(false);
  }
});

test("without a network nobody is trusted, and the list is read once", () => {
  const list = new BlockList();
  const isTrusted = trustedProxies(list);
  list.addAddress("10.1.2.3");
  expect(isTrusted("10.1.2.3")).toBe(false);
});

test.each([
  ["10.1.2.3:4711", "10.1.2.3"],
  ["100.101.202.203:1", "100.101.202.203"],
  ["[2001:db8::1]:44300", "2001:db8::1"],
  ["[2001:DB8::1]", "2001:DB8::1"],
])("%s is %s with a port", (entry, address) => {
  expect(withoutPort(entry)).toBe(address);
  expect(trustedProxies(networks())(entry)).toBe(!address.startsWith("100."));
});

test.each([
  "10.1.2.3",
  "2001:db8::1",
  "10.1.2.3:",
  "10.1.2.3:444444",
  "10.1.2.3:4x",
  "10.1.2.3:444x",
  "x10.1.2.3:4711",
  "10.1.2:4711",
  "10.1.2.3.4:4711",
  "1000.1.2.3:4711",
  "10.1.2.3000:4711",
  "[2001:db8::1]:444444",
  "[2001:db8::1]:",
  "[2001:db8::1]x",
  "x[2001:db8::1]:443",
  "[]:443",
  "[host]:443",
])("%s stays as it is", (entry) => {
  expect(withoutPort(entry)).toBe(entry);
});
