import { z } from "zod";
import type { GetApprovalResponse, PendingApproval } from "#proto/gatehouse/identity/v1/identity_service.ts";
import { success } from "../edge/answers/envelope.ts";
import { clientOf, principalOf } from "../edge/request/caller.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { intLike, textField, textLike } from "../routing/fields.ts";
import { answersWith } from "../routing/route-docs.ts";
import { idField, timeField } from "./answer-fields.ts";
import { codeField } from "./body-fields.ts";
import type { AuthDeps } from "./login-answer.ts";
import {
  assertionField,
  readRequestOptions,
  requestOptionsAnswer,
  toCodeOrPasskey,
} from "./passkey-fields.ts";

/** Longer than any token. Another text has its own error code. */
const tokenField = textField(1, 200, {
  description: "From `approval_required`.",
  examples: ["cLKkYhN0m0bLw9vJk0cJX2mR8c5ZyS1tqv7bq3Q9d5E"],
});
const approvalIdField = z
  .uuid()
  .toLowerCase()
  .meta({
    description: "From `approval_required`, in place of the token.",
    examples: ["0199a000-0000-7000-8000-000000000001"],
  });
const givenAnswer = z.strictObject({
  approvalId: idField,
  method: textLike("totp"),
  expiresIn: intLike(240, "In seconds. Until then, repeat the call with `Gatehouse-Approval: <token>`."),
});

const askedFields = {
  id: idField,
  details: z
    .record(z.string(), z.unknown())
    .meta({ description: "What is approved: the value of each field of the body, by its JSON pointer." }),
  method: textLike("POST"),
  route: textLike("/payments", "Path and query of the call."),
  sessionId: idField.meta({ description: "The session that has asked. It alone can give the approval." }),
  current: z.boolean().meta({ description: "Whether it is the one that looks." }),
  createdAt: timeField,
  expiresAt: timeField,
  state: z.enum(["pending", "given", "used", "refused", "expired"]),
};
const ownAnswer = z.strictObject(askedFields).meta({ id: "OwnApproval", description: "One in a list." });
const approvalAnswer = z
  .strictObject({
    ...askedFields,
    methods: z.array(textLike("totp")).meta({ description: "What can give it now, here. Empty: nothing." }),
    passkey: requestOptionsAnswer.optional(),
  })
  .meta({ id: "Approval", description: "Without its token." });

/** What the gateway wrote in `transactionText`. */
const Transaction = z.object({
  method: z.string(),
  route: z.string(),
  fields: z.record(z.string(), z.unknown()),
});

const idParams = z.strictObject({ id: z.uuid().toLowerCase() });

export function registerApprovalRoutes(app: GatewayApp, { identity }: Pick<AuthDeps, "identity">): void {
  const route = routeIn(app, "Approvals");

  route("verifyApproval", "POST", "/auth/approvals/verify", {
    summary: "Approve a transaction",
    description:
      "For a call that was answered `approval_required` by the gateway itself (`Gatehouse-Answer`): show the user what " +
      "`GET /auth/me/approvals/{id}` shows for its `id`, and send that `approvalId` with a TOTP code, a recovery code, or the " +
      "passkey's answer to the options from there, whose challenge has one try (401 `passkey_invalid`). Then repeat the call with `Gatehouse-Approval: <token>`. Only the same session can approve it.",
    policy: { auth: "authenticated", limitClass: "account", action: "auth.approval.verify" },
    schema: {
      body: z.union([
        z.strictObject({ token: tokenField, code: codeField }),
        z.strictObject({ token: tokenField, passkey: assertionField }),
        z.strictObject({ approvalId: approvalIdField, code: codeField }),
        z.strictObject({ approvalId: approvalIdField, passkey: assertionField }),
      ]),
    },
    answers: answersWith("The call may be repeated, once.", givenAnswer),
    codes: ["mfa_code_invalid", "passkey_invalid", "approval_mismatch", "approval_expired", "approval_used"],
    handler: async (request) => {
      const { userId, sessionId } = principalOf(request);
      const { body } = request;
      const which =
        "approvalId" in body
          ? { token: "", approvalId: body.approvalId }
          : { token: body.token, approvalId: undefined };
      const proof = toCodeOrPasskey(body);
      const attempt = { userId, sessionId, ...which, ...proof, ...clientOf(request) };
      const given = await identity.verifyApproval(attempt, request.state.call);
      const { approvalId, method, expiresInS: expiresIn } = given;
      return success({ approvalId, method, expiresIn }, "Approved. Repeat the call.");
    },
  });

  route("listApprovals", "GET", "/auth/me/approvals", {
    summary: "List one's approvals",
    description:
      "Those that any session of yours has asked for, newest first, at most 50. `pending`: they wait for you. `past`: the others; " +
      "those that were not used are kept for a day.",
    policy: { auth: "authenticated", limitClass: "account" },
    schema: { querystring: z.strictObject({ which: z.enum(["pending", "past"]).default("pending") }) },
    answers: answersWith("The approvals.", z.strictObject({ approvals: z.array(ownAnswer) })),
    handler: async (request) => {
      const { userId, sessionId } = principalOf(request);
      const past = request.query.which === "past";
      const { approvals } = await identity.listPendingApprovals({ userId, past }, request.state.call);
      return success(
        { approvals: approvals.map((found) => toAsked(found.approvalId, found, sessionId)) },
        "The approvals.",
      );
    },
  });

  route("getApproval", "GET", "/auth/me/approvals/:id", {
    summary: "Look at an approval",
    description: "One's own, in any state, from any session.",
    policy: { auth: "authenticated", limitClass: "account" },
    schema: { params: idParams },
    answers: answersWith("The approval.", z.strictObject({ approval: approvalAnswer })),
    codes: ["not_found"],
    handler: async (request) => {
      const { userId, sessionId } = principalOf(request);
      const { id } = request.params;
      const found = await identity.getApproval({ userId, sessionId, approvalId: id }, request.state.call);
      return success({ approval: toApproval(id, found, sessionId) }, "The approval.");
    },
  });

  route("refuseApproval", "POST", "/auth/me/approvals/:id/refuse", {
    summary: "Refuse an approval",
    description:
      "One's own that was not used, from any session. The call that has asked cannot be carried out with it.",
    policy: { auth: "authenticated", limitClass: "account", action: "auth.approval.refuse" },
    schema: { params: idParams },
    answers: answersWith("It is refused."),
    codes: ["not_found", "approval_expired", "approval_used"],
    handler: async (request) => {
      const { userId } = principalOf(request);
      const which = { userId, approvalId: request.params.id, ...clientOf(request) };
      await identity.refuseApproval(which, request.state.call);
      return success({}, "The approval is refused.");
    },
  });
}

function toAsked(
  id: string,
  found: PendingApproval | GetApprovalResponse,
  currentSessionId: string,
): z.output<typeof ownAnswer> {
  const { sessionId, createdAt, expiresAt } = found;
  if (createdAt === undefined || expiresAt === undefined)
    throw new Error("identity-service sent an approval without times");
  const { method, route, fields: details } = Transaction.parse(JSON.parse(found.transaction));
  return {
    ...{ id, details, method, route, sessionId },
    current: sessionId === currentSessionId,
    createdAt: createdAt.toISOString(),
    expiresAt: expiresAt.toISOString(),
    state: ownAnswer.shape.state.parse(found.state),
  };
}

function toApproval(
  id: string,
  found: GetApprovalResponse,
  currentSessionId: string,
): z.output<typeof approvalAnswer> {
  const passkey = readRequestOptions(found.passkeyOptionsJson);
  return {
    ...toAsked(id, found, currentSessionId),
    methods: found.methods,
    ...(passkey && { passkey }),
  };
}
