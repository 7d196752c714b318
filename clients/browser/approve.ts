import {
  type ApprovalRequest,
  type AskPasskey,
  type CallGateway,
  type Offer,
  type Proof,
  prove,
} from "./proofs.ts";

interface Approval extends Offer {
  id: string;
  details: Record<string, unknown>;
  state: string;
  /** Whether this session has asked for it. */
  current: boolean;
}

/**
 * Shown and given is what the gateway answers for this id: the refusal is believed in nothing else. @returns the token, if the
 * user has approved.
 */
export async function approve(
  call: CallGateway,
  { id, token }: { id: string; token: string },
  askPasskey: AskPasskey,
  ask: (request: ApprovalRequest) => Promise<Proof>,
): Promise<string | undefined> {
  const path = `/auth/me/approvals/${encodeURIComponent(id)}`;
  const { approval } = await call<{ approval: Approval }>(path);
  const { details, state, current, methods, passkey } = approval;
  if (approval.id !== id || state !== "pending" || !current) return undefined;
  const given = await prove(
    { methods, ...(passkey && { passkey }) },
    askPasskey,
    (request) => ask({ ...request, details }),
    (proof) => call("/auth/approvals/verify", { approvalId: id, ...proof }),
  );
  return given === undefined ? undefined : token;
}
