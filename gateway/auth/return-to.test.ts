import { expect, test } from "vitest";
import { send, testGateway } from "../testing/test-gateway.ts";
import { findReturn, parseReturnTarget } from "./return-to.ts";

const TARGETS = [
  "Shop=https://shop.example",
  "Bank=https://bank.example/app/",
  "Dev=http://localhost:5173/",
  "https://one.example/exact",
].map((entry) => parseReturnTarget(entry) ?? expect.fail(entry));

test.each([
  ["https://shop.example", "Shop", "https://shop.example/"],
  ["https://shop.example/", "Shop", "https://shop.example/"],
  ["https://shop.example/cart?id=1&to=//evil.example#pay", "Shop", undefined],
  ["https://bank.example/app/", "Bank", undefined],
  ["https://bank.example/app/pay/7", "Bank", undefined],
  ["http://localhost:5173/x", "Dev", undefined],
  ["https://one.example/exact", "one.example", undefined],
  ["https://one.example/exact?a=b", "one.example", undefined],
])("%s is an address of %s", (to, name, url = to) => {
  expect(findReturn(TARGETS, to)).toEqual({ name, url });
});

test.each([
  ["another site", "https://evil.example/"],
  ["no scheme", "//shop.example/"],
  ["no scheme, of another site", "//evil.example"],
  ["backslashes", "\\\\evil.example"],
  ["a backslash as the path", "https://shop.example\\@evil.example"],
  ["a backslash in the path", "https://bank.example/app/\\..\\..\\x"],
  ["one slash", "https:/shop.example/"],
  ["three slashes", "https:///shop.example/"],
  ["a user", "https://shop.example@evil.example/"],
  ["a user of the target", "https://me@shop.example/"],
  ["an empty user", "https://@shop.example/"],
  ["a password", "https://shop.example:443@evil.example/"],
  ["another scheme", "http://shop.example/"],
  ["a script", "javascript:alert(1)//https://shop.example/"],
  ["data", "data:text/html,https://shop.example/"],
  ["a name that begins alike", "https://shop.example.evil.example/"],
  ["a name that ends alike", "https://evil-shop.example/"],
  ["a sub-domain", "https://www.shop.example/"],
  ["another port", "https://shop.example:8443/"],
  ["another port of this machine", "http://localhost:5174/"],
  ["capital letters", "https://SHOP.example/"],
  ["its default port", "https://shop.example:443/"],
  ["a look-alike letter", "https://sh\u043ep.example/"],
  ["a full-width dot", "https://shop\u3002example/"],
  ["an encoded host", "https://%65vil.example/"],
  ["an encoded slash", "https://bank.example/app/..%2f..%2fx"],
  ["an encoded backslash", "https://bank.example/app/..%5c..%5cx"],
  ["dots", "https://bank.example/app/../x"],
  ["encoded dots", "https://bank.example/app/%2e%2e/x"],
  ["half-encoded dots", "https://bank.example/app/.%2E/x"],
  ["a path above", "https://bank.example/"],
  ["a path that begins alike", "https://bank.example/application"],
  ["below an exact address", "https://one.example/exact/x"],
  ["a space before", " https://shop.example/"],
  ["a tab within", "https://shop.exam\tple/"],
  ["a line end", "https://shop.example/\n"],
  ["a byte zero", "https://shop.example/\0"],
  ["nothing", ""],
  ["too much", `https://shop.example/${"x".repeat(2_000)}`],
])("%s is refused", (_what, to) => {
  expect(findReturn(TARGETS, to)).toBeUndefined();
});

test.each([
  "shop.example",
  "http://shop.example/",
  "https://shop.example/?a",
  "https://shop.example/?",
  "https://shop.example/#",
  "https://me@shop.example/",
  "https://*.example/",
  "https://SHOP.example/",
  "https://shop.example/a/../b/",
  "Shop=javascript:alert(1)",
  "<b>=https://shop.example/",
  "=https://shop.example/",
])("%j is no target", (entry) => {
  expect(parseReturnTarget(entry)).toBeUndefined();
});

test("the route answers what the settings allow, and null for everything else", async () => {
  const { app } = testGateway({ returnTargets: TARGETS });
  const ask = (to: string) => send(app, { url: `/auth/return-to?to=${encodeURIComponent(to)}` });
  const { returnTo } = (await ask("https://shop.example/cart?id=7")).json().data;
  expect(returnTo).toEqual({ name: "Shop", url: "https://shop.example/cart?id=7" });
  for (const to of ["//evil.example", "https://shop.example.evil.example/"])
    expect((await ask(to)).json().data).toEqual({ returnTo: null });
  const twice = await send(app, { url: "/auth/return-to?to=https://shop.example/&to=https://evil.example/" });
  expect(twice.statusCode).toBe(400);
  const none = await send(testGateway().app, { url: "/auth/return-to?to=https://shop.example/" });
  expect(none.json().data).toEqual({ returnTo: null });
});
