import { deviceOfAnyone, type ThrottleDeps } from "./known-caller.ts";
import { isNetworkUsed } from "./known-network-store.ts";
import { type CostlyCall, type Refusal, tooManyRequests } from "./throttle.ts";

export interface TokenCall extends CostlyCall {
  deviceToken?: string | undefined;
}

/** Whether the caller is known. Reserves apply only after a refusal. @throws {DomainError} `too_many_requests`. */
export async function spendOrRefuse(deps: ThrottleDeps, call: TokenCall): Promise<boolean> {
  const spending = await deps.throttle.spend(call);
  if (spending.kind === "admitted") return call.isKnown === true;
  const known = await spendAsKnown(deps, call, spending);
  if (known?.kind === "admitted") return true;
  throw tooManyRequests(known ?? spending);
}

/** Undefined for unknown callers. Ignores the account concerned, so that timing reveals nothing. */
export async function spendAsKnown(
  deps: ThrottleDeps,
  call: TokenCall,
  refusal?: Refusal,
): Promise<{ kind: "admitted" } | Refusal | undefined> {
  const { kind, clientIp = "", deviceToken = "" } = call;
  const device = (await deviceOfAnyone(deps, deviceToken))?.device;
  if (device !== undefined && (await deps.throttle.spend({ kind, device })).kind === "admitted")
    return { kind: "admitted" };
  // The network's own budget has no reserve.
  if (call.isKnown || refusal?.limit !== undefined) return undefined;
  const digests = deps.digestNetwork("", clientIp);
  const isKnown = digests !== undefined && (await isNetworkUsed(deps.sql, digests.networkDigest));
  return isKnown ? deps.throttle.spend({ kind, clientIp, isKnown }) : undefined;
}
