import { expect, test } from "vitest";
import { createHashShare } from "./hash-share.ts";

const BUSY = { code: "busy", retryAfterMs: 1_000 };

test("a network has its share at once and no more; another has its own", async () => {
  const share = createHashShare(2);
  let finish = () => {};
  const held = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const running = [share.run("2001:db8::1", () => held), share.run("2001:db8::2", () => held)];
  await expect(share.run("2001:db8::3", async () => "in")).rejects.toMatchObject(BUSY);
  expect(await share.run("2001:db8:0:1::1", async () => "in")).toBe("in");
  finish();
  await Promise.all(running);
  expect(await share.run("2001:db8::3", async () => "in")).toBe("in");
});

test("work that fails gives its place back", async () => {
  const share = createHashShare(1);
  for (let round = 0; round < 3; round += 1) {
    await expect(share.run("192.0.2.1", () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  }
  expect(await share.run("192.0.2.1", async () => "in")).toBe("in");
});

test("calls without an address are not one network", async () => {
  const share = createHashShare(1);
  const nested = share.run("", () => share.run(undefined, () => share.run("", async () => "in")));
  expect(await nested).toBe("in");
});
