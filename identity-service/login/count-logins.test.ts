import { expect, test } from "vitest";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { DomainError, ERROR_CATALOGUE, type ErrorCode } from "#kit/values/errors.ts";
import { type CountLogin, createCountLogin } from "./count-logins.ts";
import type { LoginResult } from "./login-result.ts";

async function counted(step: Parameters<CountLogin>[0], work: Promise<{ kind: string }>): Promise<string[]> {
  const metrics = createMetrics("test");
  await createCountLogin(metrics)(step, work as Promise<LoginResult>).catch(() => undefined);
  return (await metrics.render()).match(/^gatehouse_logins_total.*$/gm) ?? [];
}

test.each([
  ["completed", "completed"],
  ["mfa_required", "mfaChallenge"],
  ["password_change_required", "passwordChange"],
  ["code_issued", "oneTimeCode"],
])("a login that comes to %s", async (outcome, kind) => {
  expect(await counted("password", Promise.resolve({ kind }))).toEqual([
    `gatehouse_logins_total{step="password",outcome="${outcome}",service="test"} 1`,
  ]);
});

test("whatever is thrown, there are few outcomes", async () => {
  const errors = [
    new Error("x"),
    ...Object.keys(ERROR_CATALOGUE).map((code) => new DomainError(code as ErrorCode)),
  ];
  const lines = await Promise.all(errors.map((error) => counted("mfa", Promise.reject(error))));
  const outcomes = new Set(lines.flat().map((line) => /outcome="(\w+)"/.exec(line)?.[1]));
  expect(outcomes).toContain("invalid_credentials");
  expect(outcomes).toContain("failed");
  expect(outcomes.size).toBeLessThan(15);
});

test("the counted result or error reaches the caller unchanged", async () => {
  const countLogin = createCountLogin(createMetrics("test"));
  const result = { kind: "passwordChange", tempToken: "", userId: "" } as const;
  expect(await countLogin("password", Promise.resolve(result))).toBe(result);
  const error = new DomainError("busy");
  await expect(countLogin("password", Promise.reject(error))).rejects.toBe(error);
});
