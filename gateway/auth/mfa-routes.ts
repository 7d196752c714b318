import { z } from "zod";
import { clientIp, clientOf, principalOf } from "../edge/caller.ts";
import { deviceTokenOf } from "../edge/device-cookie.ts";
import { success } from "../edge/envelope.ts";
import type { GatewayApp } from "../edge/request-state.ts";
import { routeIn } from "../edge/route.ts";
import { textLike } from "../routing/fields.ts";
import { answersWith } from "../routing/route-docs.ts";
import { deviceHeader, loginAnswers, loginHeaders } from "./answer-fields.ts";
import type { AuthDeps } from "./auth-deps.ts";
import { passwordField, tempTokenField } from "./body-fields.ts";
import { loginAnswer, resultOf } from "./login-answer.ts";

/** Six digits, or a recovery code of 16 letters and digits with optional spaces and dashes. */
const CODE = /^(?:[0-9]{6}|[A-Za-z2-7](?:[ \p{Pd}]{0,3}[A-Za-z2-7]){15})$/u;
const codeField = z
  .string()
  .max(64, { abort: true })
  .regex(CODE, "must be six digits or a recovery code")
  .meta({ examples: ["492039"] });
const CodeBody = z.strictObject({ code: codeField });

const enrollmentAnswer = z.strictObject({
  secret: textLike("JBSWY3DPEHPK3PXP", "Base32."),
  otpauthUrl: textLike("otpauth://totp/Gatehouse:ada?secret=JBSWY3DPEHPK3PXP"),
  qrCode: textLike("data:image/svg+xml;base64,AA==", "An SVG as a data URL."),
});
const recoveryCodesAnswer = z.strictObject({
  recoveryCodes: z
    .array(textLike("4kzq-8m2p-xw7c"))
    .meta({ description: "Ten, each good once, and shown only here." }),
});

/** The second factor: login, enrolment, removal, recovery codes. */
export function registerMfaRoutes(app: GatewayApp, { identity, verifier }: AuthDeps): void {
  const route = routeIn(app, "Second factor");

  route("completeMfaLogin", "POST", "/auth/mfa/verify", {
    summary: "Log in: the code",
    description: "For a login that answered `requireMfa`. The code is a TOTP code or a recovery code.",
    policy: { auth: "public", limitClass: "login", action: "auth.mfa.verify" },
    headers: deviceHeader,
    schema: { body: z.strictObject({ tempToken: tempTokenField, code: codeField }) },
    answers: answersWith(
      "A session, or a password that has to be changed first.",
      loginAnswers.afterCode,
      loginHeaders,
    ),
    codes: ["mfa_code_invalid", "mfa_token_invalid"],
    handler: async (request, reply) => {
      const attempt = { ...request.body, ...clientOf(request), deviceToken: deviceTokenOf(request) };
      const answer = await identity.completeMfaLogin(attempt, request.call);
      return loginAnswer(request, reply, resultOf(answer));
    },
  });

  route("setUpMfa", "POST", "/auth/mfa/setup", {
    summary: "Begin to set up a second factor",
    description:
      "403 `email_not_verified` while the account's credentials are not proven: see `POST /auth/verify-email`.",
    policy: { auth: "authenticated", limitClass: "account", action: "auth.mfa.setup" },
    schema: { body: z.strictObject({ password: passwordField }) },
    answers: answersWith("For an authenticator app. Nothing is on yet.", enrollmentAnswer),
    codes: ["invalid_credentials", "email_not_verified", "mfa_already_enabled", "busy"],
    handler: async (request) => {
      const { userId } = principalOf(request);
      const enrollment = { userId, ...request.body, clientIp: clientIp(request) };
      const begun = await identity.beginTotpEnrollment(enrollment, request.call);
      const { secret, otpauthUrl, qrCode } = begun;
      return success({ secret, otpauthUrl, qrCode }, "Confirm with a code of your authenticator app.");
    },
  });

  route("enableMfa", "POST", "/auth/mfa/enable", {
    summary: "Turn the second factor on",
    description: "Every other session ends.",
    policy: { auth: "authenticated", limitClass: "account", action: "auth.mfa.enable" },
    schema: { body: CodeBody },
    answers: answersWith("It is on.", recoveryCodesAnswer),
    codes: ["mfa_code_invalid", "email_not_verified", "mfa_already_enabled"],
    handler: async (request) => {
      const { userId, sessionId } = principalOf(request);
      const confirmation = { userId, sessionId, ...request.body, ...clientOf(request) };
      const confirmed = await identity.confirmTotpEnrollment(confirmation, request.call);
      for (const id of confirmed.endedSessionIds) verifier.refuseSession(id);
      const { recoveryCodes } = confirmed;
      return success({ recoveryCodes }, "The second factor is on. Keep the recovery codes.");
    },
  });

  route("disableMfa", "POST", "/auth/mfa/disable", {
    summary: "Turn the second factor off",
    description: "Every other session ends.",
    policy: { auth: "authenticated", limitClass: "account", action: "auth.mfa.disable" },
    schema: { body: z.strictObject({ password: passwordField, code: codeField }) },
    answers: answersWith("It is off."),
    codes: ["invalid_credentials", "mfa_code_invalid", "busy"],
    handler: async (request) => {
      const { userId, sessionId } = principalOf(request);
      const proof = { userId, sessionId, ...request.body, ...clientOf(request) };
      const { endedSessionIds } = await identity.disableTotp(proof, request.call);
      for (const id of endedSessionIds) verifier.refuseSession(id);
      return success({}, "The second factor is off.");
    },
  });

  route("renewRecoveryCodes", "POST", "/auth/mfa/recovery-codes", {
    summary: "Get new recovery codes",
    policy: { auth: "authenticated", limitClass: "account", action: "auth.mfa.recovery_codes" },
    schema: { body: CodeBody },
    answers: answersWith("The old ones are no longer valid.", recoveryCodesAnswer),
    codes: ["mfa_code_invalid"],
    handler: async (request) => {
      const { userId } = principalOf(request);
      const proof = { userId, ...request.body, ...clientOf(request) };
      const { recoveryCodes } = await identity.regenerateRecoveryCodes(proof, request.call);
      return success({ recoveryCodes }, "Keep the recovery codes.");
    },
  });
}
