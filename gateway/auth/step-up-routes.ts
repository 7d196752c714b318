import { z } from "zod";
import { acrOf, parseAcr } from "#token-client/assurance.ts";
import { tokenTypeOf } from "#token-client/bearer-token.ts";
import { success } from "../edge/answers/envelope.ts";
import { clientOf, principalOf } from "../edge/request/caller.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { intLike, textField, textLike } from "../routing/fields.ts";
import { answersWith } from "../routing/route-docs.ts";
import { tokenFields } from "./answer-fields.ts";
import { codeField, passwordField } from "./body-fields.ts";
import type { AuthDeps } from "./login-answer.ts";
import { assertionField, readRequestOptions, requestOptionsAnswer, toAssertion } from "./passkey-fields.ts";

const levelField = z
  .int()
  .min(2)
  .max(3)
  .meta({ examples: [2] });
const StepUpBody = z.strictObject({ acr: levelField.optional() }).default({});

/** Longer than any step-up token. Another text has its own error code. */
const stepUpTokenField = textField(1, 200, { examples: ["cLKkYhN0m0bLw9vJk0cJX2mR8c5ZyS1tqv7bq3Q9d5E"] });
const ProofBody = z.union([
  z.strictObject({ stepUpToken: stepUpTokenField, code: codeField }),
  z.strictObject({ stepUpToken: stepUpTokenField, password: passwordField }),
  z.strictObject({ stepUpToken: stepUpTokenField, passkey: assertionField }),
]);

const begunAnswer = z.strictObject({
  stepUpToken: textLike(
    "cLKkYhN0m0bLw9vJk0cJX2mR8c5ZyS1tqv7bq3Q9d5E",
    "Opaque; good in this session for five minutes, five tries and one success.",
  ),
  methods: z.array(textLike("totp")).meta({
    description: "Of this user, those that reach the level: `passkey`, `totp`, `recovery_code`, `password`.",
  }),
  passkey: requestOptionsAnswer.optional(),
  expiresIn: intLike(300, "Of the step-up token, in seconds."),
});
const { accessToken, tokenType, expiresIn } = tokenFields;
const raisedAnswer = z.strictObject({
  accessToken,
  tokenType,
  expiresIn,
  acr: intLike(2, "The session's level of assurance now."),
});

export function registerStepUpRoutes(app: GatewayApp, { identity }: AuthDeps): void {
  const route = routeIn(app, "Second factor");

  route("beginStepUp", "POST", "/auth/step-up", {
    summary: "Begin a step-up",
    description:
      "After 401 `step_up_required`. Without `acr`, the session's present level is to be proven again. 403 " +
      "`mfa_enrollment_required` if the user has no factor that reaches the level; `reauthentication_required` if nothing but " +
      "another login at their identity provider proves who they are.",
    policy: { auth: "authenticated", limitClass: "account", action: "auth.step_up.begin" },
    schema: { body: StepUpBody },
    answers: answersWith("What the user may prove.", begunAnswer),
    codes: ["mfa_enrollment_required", "reauthentication_required"],
    handler: async (request) => {
      const { userId, sessionId, acr } = principalOf(request);
      const wanted = request.body.acr;
      const wantedAcr = wanted === undefined ? "" : acrOf(wanted === 2 ? 2 : 3);
      const begun = await identity.beginStepUp(
        { userId, sessionId, currentAcr: acrOf(acr), wantedAcr },
        request.state.call,
      );
      const { stepUpToken, methods, expiresInS: expiresIn } = begun;
      const passkey = readRequestOptions(begun.passkeyOptionsJson);
      const answer = { stepUpToken, methods, expiresIn, ...(passkey && { passkey }) };
      return success(answer, "Prove one of the methods.");
    },
  });

  route("completeStepUp", "POST", "/auth/step-up/verify", {
    summary: "Step up: the proof",
    description:
      "A passkey makes the session's level 3, a TOTP or recovery code 2; a password renews level 1. The refresh token " +
      "stays as it is. A passkey has one try: 401 `passkey_invalid`, whatever is wrong with its answer.",
    policy: { auth: "authenticated", limitClass: "account", action: "auth.step_up" },
    schema: { body: ProofBody },
    answers: answersWith("A new access token of the same session.", raisedAnswer),
    codes: ["mfa_code_invalid", "invalid_credentials", "passkey_invalid", "step_up_token_invalid", "busy"],
    handler: async (request) => {
      const { userId, sessionId, confirmation } = principalOf(request);
      const { stepUpToken } = request.body;
      const proof = toProof(request.body);
      const raised = await identity.completeStepUp(
        { userId, sessionId, stepUpToken, proof, ...clientOf(request) },
        request.state.call,
      );
      const acr = parseAcr(raised.acr);
      if (acr === undefined) throw new Error("identity-service sent a level that this gateway cannot read");
      const { accessToken, expiresInS } = raised;
      return success(
        { accessToken, tokenType: tokenTypeOf(confirmation), expiresIn: expiresInS, acr },
        "The session is raised.",
      );
    },
  });
}

function toProof(body: z.output<typeof ProofBody>) {
  if ("passkey" in body) return { $case: "passkey", value: toAssertion(body.passkey) } as const;
  if ("code" in body) return { $case: "code", value: body.code } as const;
  return { $case: "password", value: body.password } as const;
}
