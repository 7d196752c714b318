import { deviceOfAnyone, type KnownDeviceDeps } from "./known-device.ts";
import type { KnownNetworkDeps } from "./known-network.ts";
import { isNetworkUsed } from "./known-network-store.ts";
import { type CostlyCall, type Refusal, type Throttle, tooManyRequests } from "./throttle.ts";

export interface SpendCallDeps extends KnownNetworkDeps, KnownDeviceDeps {
  throttle: Pick<Throttle, "spend">;
}

/** A call with the token of the caller's device. */
export interface TokenCall extends CostlyCall {
  /** The device token of an earlier login. */
  deviceToken?: string | undefined;
}

/**
 * Counts a call before it costs anything. Known devices have budgets of their own, and known networks share a reserve. Both
 * are looked up only when the strangers' budget or the network's own is used up.
 *
 * @returns whether the caller was counted as known.
 * @throws {DomainError} `too_many_requests`; `service_unavailable`.
 */
export async function spendOrRefuse(deps: SpendCallDeps, call: TokenCall): Promise<boolean> {
  const spending = await deps.throttle.spend(call);
  if (spending.kind === "admitted") return call.isKnown === true;
  const known = await spendAsKnown(deps, call, spending);
  if (known?.kind === "admitted") return true;
  throw tooManyRequests(known ?? spending);
}

/**
 * Counts a call against the budgets of known callers. Does not look at the account that the call is about, so that neither
 * the response nor its timing discloses anything about it.
 *
 * @param refusal why the call was refused before, if it was.
 * @returns undefined if the caller is not known.
 */
export async function spendAsKnown(
  deps: SpendCallDeps,
  call: TokenCall,
  refusal?: Refusal,
): Promise<{ kind: "admitted" } | Refusal | undefined> {
  const { kind, clientIp = "", deviceToken = "" } = call;
  const device = (await deviceOfAnyone(deps, deviceToken))?.device;
  if (device !== undefined && (await deps.throttle.spend({ kind, device })).kind === "admitted")
    return { kind: "admitted" };
  // A network's own budget is shared with nobody, so being known does not help.
  if (call.isKnown || refusal?.limit !== undefined) return undefined;
  const digests = deps.digestNetwork("", clientIp);
  const isKnown = digests !== undefined && (await isNetworkUsed(deps.sql, digests.networkDigest));
  return isKnown ? deps.throttle.spend({ kind, clientIp, isKnown }) : undefined;
}
