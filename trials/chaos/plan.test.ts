import { expect, test } from "vitest";
import { NETWORKS, planFaults, planText, SERVICES, SHORT_SECONDS, SHORT_SEED } from "./plan.ts";

test("the same seed gives the same plan, and another seed another", () => {
  expect(planFaults(7, 600)).toEqual(planFaults(7, 600));
  expect(planText(planFaults(7, 600))).not.toBe(planText(planFaults(8, 600)));
});

test("ten minutes reach every process and every network, in every way", () => {
  const plans = [1, 2, 3, 4].flatMap((seed) => planFaults(seed, 600));
  const whom = new Set(plans.map((fault) => fault.whom));
  expect(NETWORKS.filter((network) => !whom.has(network))).toEqual([]);
  const deedsOf = (part: string) =>
    new Set(plans.filter(({ whom }) => whom === part).map(({ deed }) => deed));
  for (const service of SERVICES) {
    for (const replica of [service, `${service}-2`]) {
      expect(deedsOf(replica)).toEqual(new Set(["kill", "freeze"]));
    }
  }
  expect(deedsOf("postgres")).toEqual(new Set(["kill", "freeze"]));
  expect(deedsOf("redis")).toEqual(new Set(["empty", "freeze"]));
  const networkDeeds = plans.filter((fault) => NETWORKS.includes(fault.whom)).map(({ deed }) => deed);
  expect(new Set(networkDeeds)).toEqual(new Set(["silent", "refused", "slow"]));
});

test("the short plan has a fault of each kind, freezes services for longer than any deadline, and refuses events", () => {
  const plan = planFaults(SHORT_SEED, SHORT_SECONDS);
  const partOf = (whom: string) => (whom.includes(">") ? "network" : whom.replace(/-2$/, ""));
  const done = new Set(plan.map(({ deed, whom }) => `${deed} ${partOf(whom)}`));
  const wanted = [...SERVICES, "postgres"].flatMap((service) => [`kill ${service}`, `freeze ${service}`]);
  const ofNetworks = ["silent", "refused", "slow"].map((deed) => `${deed} network`);
  expect([...wanted, ...ofNetworks].filter((fault) => !done.has(fault))).toEqual([]);
  expect([...done].some((fault) => fault.endsWith(" redis"))).toBe(true);
  const leastMs = { gateway: 3_000, "token-service": 3_000, "event-service": 10_000 };
  for (const [service, ms] of Object.entries(leastMs)) {
    const freezes = plan.filter(({ deed, whom }) => deed === "freeze" && partOf(whom) === service);
    expect(Math.max(...freezes.map(({ forMs }) => forMs))).toBeGreaterThan(ms);
  }
  expect(plan.some(({ deed, whom }) => deed === "refused" && whom.endsWith(">receiver"))).toBe(true);
});

test("no part has two faults at a time, and none lasts beyond the end", () => {
  for (const seed of [1, 2, 3]) {
    const plan = planFaults(seed, 60);
    expect(plan.length).toBeGreaterThan(15);
    expect(plan.every(({ atMs, forMs }) => forMs >= 0 && atMs + forMs <= 60_000)).toBe(true);
    for (const [, faults] of Map.groupBy(plan, ({ whom }) => whom)) {
      const overlaps = faults.filter(({ atMs }, index) => {
        const before = faults[index - 1];
        return before !== undefined && before.atMs + before.forMs > atMs;
      });
      expect(overlaps).toEqual([]);
    }
  }
});
