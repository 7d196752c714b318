import { DomainError, type ErrorCode } from "../../service-kit/errors.ts";
import { type Guess, type Throttle, tooManyRequests } from "./throttle.ts";

/** What an attempt still needs after its turn has come: a hash, the database, the session. */
const RESERVE_MS = 300;

/**
 * Carries out an attempt at a password, counted before it begins and one at a time for each account. What throws
 * `invalid_credentials` was a wrong guess, `email_not_verified` a right one; what throws anything else came to no verdict
 * and is given back.
 *
 * @param deadlineMs of the call, in milliseconds since the epoch.
 * @param onLocked called when the account is locked, or is from this attempt on.
 * @param attempt told whether the account is locked: then it must fail like a wrong password, after the same work.
 * @throws {DomainError} `too_many_requests` for the network or everybody; `busy`; what `attempt` throws.
 */
export async function countGuess<T>(
  throttle: Pick<Throttle, "turn" | "take" | "succeed" | "giveBack">,
  guess: Guess,
  deadlineMs: number,
  onLocked: () => void,
  attempt: (isLocked: boolean) => Promise<T>,
): Promise<T> {
  const done = await throttle.turn(guess, deadlineMs - Date.now() - RESERVE_MS);
  try {
    const admission = await throttle.take(guess);
    if (admission.kind === "refused") throw tooManyRequests(admission);
    if (admission.kind === "locked") {
      onLocked();
      return await attempt(true);
    }
    const result = await attempt(false).catch(async (error: unknown) => {
      if (isCode(error, "email_not_verified")) await throttle.succeed(guess);
      else if (!isCode(error, "invalid_credentials")) await throttle.giveBack(guess);
      else if (admission.locksIfWrong) onLocked();
      throw error;
    });
    await throttle.succeed(guess);
    return result;
  } finally {
    done();
  }
}

function isCode(error: unknown, code: ErrorCode): boolean {
  return error instanceof DomainError && error.code === code;
}
