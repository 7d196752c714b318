import type { KnownDevice } from "../throttle/device-token.ts";
import { knownDevice, networkStanding } from "../throttle/known-caller.ts";
import { type Guess, type RightLogin, tooManyRequests } from "../throttle/throttle.ts";
import type { LoginDeps } from "./login-deps.ts";
import type { LoginOrigin } from "./remember-device.ts";

export interface Caller {
  guess: Guess;
  device: KnownDevice | undefined;
  /** Has logged in from this device or network before. */
  isKnown: boolean;
}

export async function recogniseCaller(
  deps: LoginDeps,
  { clientIp, deviceToken }: Pick<LoginOrigin, "clientIp" | "deviceToken">,
  email: string,
): Promise<Caller> {
  const device = await knownDevice(deps, deviceToken, email);
  const standing = device === undefined ? await networkStanding(deps, email, clientIp) : undefined;
  return {
    guess: { account: email, clientIp, deviceId: device?.id, standing },
    device,
    isKnown: device !== undefined || standing === "own_network",
  };
}

/** Counts a login whose first factor is right. @throws {DomainError} `too_many_requests`. */
export async function spendLogin(
  { throttle }: Pick<LoginDeps, "throttle">,
  kind: RightLogin["kind"],
  { guess }: Caller,
): Promise<void> {
  const spending = await throttle.spend({ ...guess, kind });
  if (spending.kind === "refused") throw tooManyRequests(spending);
}
