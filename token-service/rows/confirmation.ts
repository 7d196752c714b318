import { z } from "zod";
import type { Confirmation } from "#kit/rpc/call-context.ts";

/** SHA-256 in base64url. */
const thumbprint = z.string().regex(/^[A-Za-z0-9_-]{43}$/);
const orEmpty = thumbprint.or(z.literal(""));

/** What a call proves: the key, the certificate, or both. Absent: nothing. */
export const provenField = z.object({ jkt: orEmpty, x5tS256: orEmpty }).optional();

/** RFC 9449 §6.1, RFC 8705 §3.1. Other members are keys that nobody here can check. */
export const cnfClaim = z.union([
  z.strictObject({ jkt: thumbprint }),
  z.strictObject({ "x5t#S256": thumbprint }),
]);
type CnfClaim = z.output<typeof cnfClaim>;

/** Stored in a session's row. */
export interface Binding {
  jkt: string | null;
  x5tS256: string | null;
}

/** The key rather than the certificate: a key is the client's own, a certificate may be its proxy's. */
export function bindingTo(proven: Confirmation | undefined): Binding {
  if (proven === undefined) return { jkt: null, x5tS256: null };
  const { jkt, x5tS256 } = proven;
  return { jkt: jkt || null, x5tS256: jkt === "" ? x5tS256 || null : null };
}

export function isProven({ jkt, x5tS256 }: Binding, proven: Confirmation | undefined): boolean {
  return (jkt === null || jkt === proven?.jkt) && (x5tS256 === null || x5tS256 === proven?.x5tS256);
}

/** Undefined for bearer tokens. */
export function confirmationOf({ jkt, x5tS256 }: Binding): Confirmation | undefined {
  if (jkt === null && x5tS256 === null) return undefined;
  return { jkt: jkt ?? "", x5tS256: x5tS256 ?? "" };
}

/** The member of a token's payload, if there is one. */
export function cnfOf({ jkt, x5tS256 }: Binding): { cnf?: CnfClaim } {
  if (jkt !== null) return { cnf: { jkt } };
  return x5tS256 === null ? {} : { cnf: { "x5t#S256": x5tS256 } };
}

export function bindingIn(cnf: CnfClaim | undefined): Binding {
  if (cnf === undefined) return { jkt: null, x5tS256: null };
  return "jkt" in cnf ? { jkt: cnf.jkt, x5tS256: null } : { jkt: null, x5tS256: cnf["x5t#S256"] };
}
