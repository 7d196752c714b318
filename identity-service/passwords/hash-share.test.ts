import { expect, test } from "vitest";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { countShareRefusals, createHashShare, type HashCaller, hashSharesOf } from "./hash-share.ts";

const BUSY = { code: "busy", retryAfterMs: 1_000 };

/** Takes a share and holds it until `finish` is called. */
function held(share: ReturnType<typeof createHashShare>, callers: readonly HashCaller[]) {
  let finish = () => {};
  const end = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const running = callers.map((caller) => share.run(caller, () => end));
  return async () => {
    finish();
    await Promise.all(running);
  };
}

test("a network has its share at once and no more; another has its own", async () => {
  const share = createHashShare({ maxOfNetwork: 2, maxOfStrangers: 10 });
  const release = held(share, [{ clientIp: "2001:db8::1" }, { clientIp: "2001:db8::2" }]);
  await expect(share.run({ clientIp: "2001:db8::3" }, async () => "in")).rejects.toMatchObject(BUSY);
  expect(await share.run({ clientIp: "2001:db9::1" }, async () => "in")).toBe("in");
  await release();
  expect(await share.run({ clientIp: "2001:db8::3" }, async () => "in")).toBe("in");
});

test("a /48 has no more than a /64", async () => {
  const share = createHashShare({ maxOfNetwork: 2, maxOfStrangers: 10 });
  const release = held(share, [{ clientIp: "2001:db8:0:1::1" }, { clientIp: "2001:db8:0:1000::1" }]);
  await expect(share.run({ clientIp: "2001:db8:0:ff00::1" }, async () => "in")).rejects.toMatchObject(BUSY);
  const known = { clientIp: "2001:db8:0:ff00::1", isKnown: true };
  expect(await share.run(known, async () => "in")).toBe("in");
  await release();
});

test("strangers of all networks leave a part to known callers, and their places are released", async () => {
  const share = createHashShare(hashSharesOf(8));
  const strangers = Array.from({ length: 6 }, (_, index) => ({ clientIp: `192.0.2.${index}` }));
  const release = held(share, strangers);
  await expect(share.run({ clientIp: "203.0.113.1" }, async () => "in")).rejects.toMatchObject(BUSY);
  await expect(share.run({ clientIp: undefined }, async () => "in")).rejects.toMatchObject(BUSY);
  expect(await share.run({ clientIp: "203.0.113.1", isKnown: true }, async () => "in")).toBe("in");
  await release();
  const again = held(share, strangers);
  await again();
});

test("refusals are counted by whose share was used up", async () => {
  const metrics = createMetrics("test");
  const share = createHashShare({
    maxOfNetwork: 1,
    maxOfStrangers: 2,
    onRefusal: countShareRefusals(metrics),
  });
  const release = held(share, [{ clientIp: "192.0.2.1" }, { clientIp: "192.0.2.2" }]);
  const refused = ["192.0.2.1", "192.0.2.3", "192.0.2.4"].map((clientIp) =>
    share.run({ clientIp }, async () => "in"),
  );
  for (const call of refused) await expect(call).rejects.toMatchObject(BUSY);
  await release();
  const text = await metrics.render();
  expect(text).toMatch(/^gatehouse_password_hash_share_refusals_total\{share="network",.*\} 1$/m);
  expect(text).toMatch(/^gatehouse_password_hash_share_refusals_total\{share="strangers",.*\} 2$/m);
});

test("work that fails gives its place back", async () => {
  const share = createHashShare({ maxOfNetwork: 1, maxOfStrangers: 1 });
  const caller = { clientIp: "192.0.2.1" };
  for (let round = 0; round < 3; round += 1) {
    await expect(share.run(caller, () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  }
  expect(await share.run(caller, async () => "in")).toBe("in");
});

test("calls without an address are not one network", async () => {
  const share = createHashShare({ maxOfNetwork: 1, maxOfStrangers: 10 });
  const [empty, none] = [{ clientIp: "" }, { clientIp: undefined }];
  for (const caller of [empty, none]) {
    expect(await share.run(caller, () => share.run(caller, async () => "in"))).toBe("in");
  }
});

test("the smallest queue has a place for every kind of caller", () => {
  expect(hashSharesOf(1)).toEqual({ maxOfNetwork: 1, maxOfStrangers: 1 });
  expect(hashSharesOf(34)).toEqual({ maxOfNetwork: 17, maxOfStrangers: 25 });
});
