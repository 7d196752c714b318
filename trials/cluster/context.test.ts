import { expect, test } from "vitest";
import { assertReachable, chooseContext, isInstalled, TrialRefused } from "./context.ts";

const known = ["production", "kind-gatehouse"];

test("only a context that was named is used, also if there is one alone", () => {
  expect(chooseContext(known, "production")).toBe("production");
  expect(() => chooseContext(known, undefined)).toThrow(TrialRefused);
  expect(() => chooseContext(["kind-kind"], undefined)).toThrow(TrialRefused);
});

test("a refusal says what there is, and what to do", () => {
  expect(() => chooseContext(known, undefined)).toThrow(/--context.*production, kind-gatehouse.*--make kind/);
  expect(() => chooseContext(known, "staging")).toThrow(
    "no context staging: kubectl knows production, kind-gatehouse",
  );
  expect(() => chooseContext([], undefined)).toThrow("kubectl knows none");
});

test("a cluster that does not answer is reported with kubectl's words", async () => {
  const refused = async () => Promise.reject(new Error("connection refused"));
  await expect(assertReachable(refused)).rejects.toThrow("the cluster does not answer: connection refused");
  await expect(assertReachable(refused)).rejects.toThrow(TrialRefused);
});

const clusterWith = (names: string) => async () => names;

test("an installation that is no trial is not touched, also when its context was named", async () => {
  const production = clusterWith("deployment.apps/identity-service\ndeployment.apps/token-service\n");
  await expect(isInstalled(production)).rejects.toThrow(TrialRefused);
  expect(await isInstalled(clusterWith(""))).toBe(false);
  expect(await isInstalled(clusterWith("deployment.apps/mailbox\ndeployment.apps/redis\n"))).toBe(true);
});
