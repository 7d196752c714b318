import { expect, test } from "vitest";
import { assertNoOtherInstallation, chooseContext, TrialRefused } from "./context.ts";

test.each(["kind-kind", "k3d-gatehouse-try", "minikube", "docker-desktop"])(
  "a cluster on one's own machine is tried on without more ado: %s",
  (name) => {
    expect(chooseContext(name, undefined)).toBe(name);
  },
);

test.each(["production", "arn:aws:eks:eu-central-1:1:cluster/kind-of-prod", "minikube-like", "prod-kind-1"])(
  "any other is refused, and the message says how to name it: %s",
  (name) => {
    expect(() => chooseContext(name, undefined)).toThrow(TrialRefused);
    expect(() => chooseContext(name, undefined)).toThrow(`--context ${name}`);
    expect(chooseContext(name, name)).toBe(name);
  },
);

test("without a context the message says what to do", () => {
  expect(() => chooseContext(undefined, undefined)).toThrow("--make kind");
});

const clusterWith = (names: string) => async () => names;

test("an installation that is no trial is not touched, also when its context was named", async () => {
  const production = clusterWith("deployment.apps/identity-service\ndeployment.apps/token-service\n");
  await expect(assertNoOtherInstallation(production)).rejects.toThrow(TrialRefused);
  await assertNoOtherInstallation(clusterWith(""));
  await assertNoOtherInstallation(clusterWith("deployment.apps/mailbox\ndeployment.apps/redis\n"));
});
