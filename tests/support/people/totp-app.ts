import { setTimeout as sleep } from "node:timers/promises";
import { generateSync } from "otplib";

const STEP_S = 30;
/** Between a code and its use, also in a browser on a busy machine. */
const MARGIN_S = 10;

/**
 * An authenticator app. @returns a function for codes: each works once, so it waits for the next one if needed.
 * The code of the step before the present one is accepted until the present one ends.
 */
export function totpApp(secret: string): () => Promise<string> {
  let usedStep = 0;
  const stepAt = (shiftS: number) => Math.floor((Date.now() / 1_000 + shiftS) / STEP_S);
  return async () => {
    await sleep(Math.max(0, (usedStep + 1) * STEP_S * 1_000 - Date.now()));
    usedStep = Math.max(usedStep + 1, stepAt(MARGIN_S) - 1);
    return generateSync({ secret, epoch: usedStep * STEP_S });
  };
}
