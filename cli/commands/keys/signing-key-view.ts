import { type SigningKey, SigningKeyState } from "#proto/gatehouse/token/v1/key_service.ts";

/** Printed for `--json`. Times are RFC 3339 UTC. */
export interface SigningKeyView {
  keyId: string;
  /** `next`, `active`, `retired`, `revoked` or `unknown`. */
  state: string;
  algorithm: string;
  createdAt: string | null;
  activatedAt: string | null;
  retiredAt: string | null;
}

const STATE = new Map<SigningKeyState, string>([
  [SigningKeyState.NEXT, "next"],
  [SigningKeyState.ACTIVE, "active"],
  [SigningKeyState.RETIRED, "retired"],
  [SigningKeyState.REVOKED, "revoked"],
]);

export function signingKeyView(key: SigningKey): SigningKeyView {
  return {
    keyId: key.keyId,
    state: STATE.get(key.state) ?? "unknown",
    algorithm: key.algorithm,
    createdAt: key.createdAt?.toISOString() ?? null,
    activatedAt: key.activatedAt?.toISOString() ?? null,
    retiredAt: key.retiredAt?.toISOString() ?? null,
  };
}
