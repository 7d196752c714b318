import type { IdentityServiceServer } from "../proto/gen/gatehouse/identity/v1/identity_service.ts";
import type { Callers, Implementation } from "../service-kit/rpc-server.ts";
import { type ApprovalDeps, askApproval } from "./approvals/ask-approval.ts";
import { useApproval } from "./approvals/use-approval.ts";
import { verifyApproval } from "./approvals/verify-approval.ts";
import { optionsJson } from "./passkeys/options-json.ts";

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
      const { methods, passkey, ...asked } = await askApproval(deps, request, context);
      const passkeyOptionsJson = passkey && optionsJson(passkey);
      return { ...asked, methods: [...methods], passkeyOptionsJson };
    },
    verifyApproval: (request, context) => verifyApproval(deps, request, context),
    useApproval: (request, context) => useApproval(deps, request, context),
  };
}
