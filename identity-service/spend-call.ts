import { orUnavailable } from "../service-kit/postgres.ts";
import { deviceOfAnyone, type KnownDeviceDeps } from "./known-device.ts";
import type { KnownNetworkDeps } from "./known-network.ts";
import { isNetworkUsed } from "./known-network-store.ts";
import { type CostlyCall, type Refusal, type Throttle, tooManyRequests } from "./throttle.ts";

export interface SpendCallDeps extends KnownNetworkDeps, KnownDeviceDeps {
  throttle: Pick<Throttle, "spend">;
}

/** A call, and what may speak for whoever makes it. */
export interface TokenCall extends CostlyCall {
  /** As an earlier login of the device gave it. */
  deviceToken?: string | undefined;
}

/**
 * Counts a call, before it costs anything. Devices that somebody logs in on have a budget of their own, and networks a
 * reserve: only when what strangers share is used up, or the network's own budget, it is looked up whether this is one.
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
 * Counts a call against what is kept for known callers. Whose account the call is about is not looked at, so that neither
 * the answer nor its time tells anything of it.
 *
 * @param refusal what the call was refused by before, if it was.
 * @returns undefined if nothing speaks for the caller.
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
  // Its own network's budget it shares with nobody else, known or not.
  if (call.isKnown || refusal?.limit !== undefined) return undefined;
  const digests = deps.digestNetwork("", clientIp);
  const isKnown =
    digests !== undefined && (await orUnavailable(isNetworkUsed(deps.sql, digests.networkDigest)));
  return isKnown ? deps.throttle.spend({ kind, clientIp, isKnown }) : undefined;
}
