import { generateSync } from "otplib";
import { expect } from "vitest";

const STEP_S = 30;

/** An authenticator app. @returns a function for codes: each works once, so it waits for the next one if needed. */
export function totpApp(secret: string): () => Promise<string> {
  let usedStep = 0;
  const step = () => Math.floor(Date.now() / 1_000 / STEP_S);
  return async () => {
    // The step before the present one is accepted as well.
    await expect.poll(() => step() > usedStep, { timeout: 90_000, interval: 500 }).toBe(true);
    usedStep = Math.max(usedStep + 1, step() - 1);
    return generateSync({ secret, epoch: usedStep * STEP_S });
  };
}
