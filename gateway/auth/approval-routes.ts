import { z } from "zod";
import { clientOf, principalOf } from "../edge/caller.ts";
import { success } from "../edge/envelope.ts";
import type { GatewayApp } from "../edge/request-state.ts";
import { routeIn } from "../edge/route.ts";
import { intLike, textField, textLike } from "../routing/fields.ts";
import { answersWith } from "../routing/route-docs.ts";
import { idField } from "./answer-fields.ts";
import type { AuthDeps } from "./auth-deps.ts";
import { codeField } from "./body-fields.ts";
import { assertionField, toAssertion } from "./passkey-fields.ts";

/** Longer than any token. Another text has its own error code. */
const tokenField = textField(1, 200, {
  description: "From `approval_required`.",
  examples: ["cLKkYhN0m0bLw9vJk0cJX2mR8c5ZyS1tqv7bq3Q9d5E"],
});
const givenAnswer = z.strictObject({
  approvalId: idField,
  method: textLike("totp"),
  expiresIn: intLike(240, "In seconds. Until then, repeat the call with `Gatehouse-Approval: <token>`."),
});

export function registerApprovalRoutes(app: GatewayApp, { identity }: Pick<AuthDeps, "identity">): void {
  const route = routeIn(app, "Approvals");

  route("verifyApproval", "POST", "/auth/approvals/verify", {
    summary: "Approve a transaction",
    description:
      "For a call that was answered `approval_required`: show its `details` to the user, and send a TOTP code, a recovery " +
      "code, or the passkey's answer to that challenge, which has one try (401 `passkey_invalid`). Then repeat the call with `Gatehouse-Approval: <token>`. Only the same session can approve it.",
    policy: { auth: "authenticated", limitClass: "account", action: "auth.approval.verify" },
    schema: {
      body: z.union([
        z.strictObject({ token: tokenField, code: codeField }),
        z.strictObject({ token: tokenField, passkey: assertionField }),
      ]),
    },
    answers: answersWith("The call may be repeated, once.", givenAnswer),
    codes: ["mfa_code_invalid", "passkey_invalid", "approval_mismatch", "approval_expired", "approval_used"],
    handler: async (request) => {
      const { userId, sessionId } = principalOf(request);
      const { body } = request;
      const proof =
        "passkey" in body
          ? { code: "", passkey: toAssertion(body.passkey) }
          : { code: body.code, passkey: undefined };
      const attempt = { userId, sessionId, token: body.token, ...proof, ...clientOf(request) };
      const given = await identity.verifyApproval(attempt, request.state.call);
      const { approvalId, method, expiresInS: expiresIn } = given;
      return success({ approvalId, method, expiresIn }, "Approved. Repeat the call.");
    },
  });
}
