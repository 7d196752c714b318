import type { Callers, Implementation } from "#kit/rpc/rpc-server.ts";
import type { IdentityServiceServer } from "#proto/gatehouse/identity/v1/identity_service.ts";
import { type ApprovalDeps, askApproval } from "./approvals/ask-approval.ts";
import { getApproval, listOwnApprovals } from "./approvals/get-approval.ts";
import { refuseApproval } from "./approvals/refuse-approval.ts";
import { useApproval } from "./approvals/use-approval.ts";
import { verifyApproval } from "./approvals/verify-approval.ts";
import { optionsJson } from "./passkeys/passkey-ceremony.ts";

export const APPROVAL_CALLERS = {
  askApproval: ["gateway"],
  getApproval: ["gateway"],
  listPendingApprovals: ["gateway"],
  verifyApproval: ["gateway"],
  refuseApproval: ["gateway"],
  useApproval: ["gateway"],
} as const satisfies Partial<Callers<IdentityServiceServer>>;

export function createApprovalRpc(
  deps: ApprovalDeps,
): Pick<Implementation<IdentityServiceServer>, keyof typeof APPROVAL_CALLERS> {
  return {
    askApproval: async (request, context) => {
      const { methods, passkey, ...asked } = await askApproval(deps, request, context);
      const passkeyOptionsJson = passkey && optionsJson(passkey);
      return { ...asked, methods: [...methods], passkeyOptionsJson };
    },
    getApproval: async (request) => {
      const { methods, passkey, ...found } = await getApproval(deps, request);
      const passkeyOptionsJson = passkey && optionsJson(passkey);
      return { ...found, methods: [...methods], passkeyOptionsJson };
    },
    listPendingApprovals: async (request) => ({
      approvals: (await listOwnApprovals(deps, request)).map(
        ({ id: approvalId, transactionText: transaction, sessionId, createdAt, expiresAt, state }) => ({
          ...{ approvalId, transaction, sessionId },
          ...{ createdAt, expiresAt, state },
        }),
      ),
    }),
    refuseApproval: async (request, context) => {
      await refuseApproval(deps, request, context);
      return {};
    },
    verifyApproval: (request, context) => verifyApproval(deps, request, context),
    useApproval: (request, context) => useApproval(deps, request, context),
  };
}
