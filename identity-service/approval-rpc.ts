import type { IdentityServiceServer } from "../proto/gen/gatehouse/identity/v1/identity_service.ts";
import type { Callers, Implementation } from "../service-kit/rpc-server.ts";
import { type ApprovalDeps, askApproval } from "./approvals/ask-approval.ts";
import { useApproval } from "./approvals/use-approval.ts";
import { verifyApproval } from "./approvals/verify-approval.ts";

type ApprovalMethods = "askApproval" | "verifyApproval" | "useApproval";

export const APPROVAL_CALLERS: Pick<Callers<IdentityServiceServer>, ApprovalMethods> = {
  askApproval: ["gateway"],
  verifyApproval: ["gateway"],
  useApproval: ["gateway"],
};

export function createApprovalRpc(
  deps: ApprovalDeps,
): Pick<Implementation<IdentityServiceServer>, ApprovalMethods> {
  return {
    askApproval: async (request, context) => {
      const { token, methods, expiresInS } = await askApproval(deps, request, context);
      return { token, methods: [...methods], expiresInS };
    },
    verifyApproval: (request, context) => verifyApproval(deps, request, context),
    useApproval: (request, context) => useApproval(deps, request, context),
  };
}
