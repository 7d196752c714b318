import type { FastifyRequest } from "fastify";
import { z } from "zod";
import type { BeginTotpEnrollmentResponse } from "#proto/gatehouse/identity/v1/identity_service.ts";
import { success } from "../edge/answers/envelope.ts";
import { clientOf, ownerOf } from "../edge/request/caller.ts";
import { deviceTokenOf } from "../edge/request/device-cookie.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { optional, textLike } from "../routing/fields.ts";
import { answersWith } from "../routing/route-docs.ts";
import {
  deviceHeader,
  enrolledLoginAnswer,
  loginAnswers,
  loginHeaders,
  recoveryCodesField,
} from "./answer-fields.ts";
import { codeField, OWN_LEVEL, passwordField, tempTokenField } from "./body-fields.ts";
import { type AuthDeps, endReplacedSession, enrolledAnswer, loginAnswer } from "./login-answer.ts";
import { assertionField, toCodeOrPasskey } from "./passkey-fields.ts";

const CodeBody = z.strictObject({ code: codeField });
const SetUpBody = z.union([
  z.strictObject({ password: passwordField }),
  z.strictObject({ tempToken: tempTokenField }),
]);
const mfaFields = { tempToken: tempTokenField, trustDevice: optional(z.boolean()) };
const LoginBody = z.union([
  z.strictObject({ ...mfaFields, code: codeField }),
  z.strictObject({ ...mfaFields, passkey: assertionField }),
]);
const EnableBody = z.union([CodeBody, z.strictObject({ tempToken: tempTokenField, code: codeField })]);

const ENABLED = "The second factor is on. Keep the recovery codes.";

const enrollmentAnswer = z.strictObject({
  secret: textLike("JBSWY3DPEHPK3PXP", "Base32."),
  otpauthUrl: textLike("otpauth://totp/Gatehouse:ada?secret=JBSWY3DPEHPK3PXP"),
  qrCode: textLike("data:image/svg+xml;base64,AA==", "An SVG as a data URL."),
});
const recoveryCodesAnswer = z.strictObject({ recoveryCodes: recoveryCodesField });

function setUpAnswer({ secret, otpauthUrl, qrCode }: BeginTotpEnrollmentResponse) {
  return success({ secret, otpauthUrl, qrCode }, "Confirm with a code of your authenticator app.");
}

export function registerMfaRoutes(app: GatewayApp, deps: AuthDeps): void {
  const { identity, verifier } = deps;
  const route = routeIn(app, "Second factor");

  route("completeMfaLogin", "POST", "/auth/mfa/verify", {
    summary: "Log in: the second factor",
    description:
      "For a login that answered `requireMfa`: a TOTP code, a recovery code, or the passkey's answer to that challenge, " +
      "which has one try (401 `passkey_invalid`, whatever is wrong). Where the answer had `trustDeviceDays`, `trustDevice: true` spares the code at later logins of this device from known networks; their " +
      "sessions have `acr` 1.",
    policy: {
      auth: "public",
      limitClass: "login",
      action: "auth.mfa.verify",
      cookies: "session",
      issuesTokens: true,
    },
    headers: deviceHeader,
    schema: { body: LoginBody },
    answers: answersWith(
      "A session, or a password that has to be changed first.",
      loginAnswers.afterCode,
      loginHeaders,
    ),
    codes: ["mfa_code_invalid", "passkey_invalid", "mfa_token_invalid", "role_not_defined"],
    identify: (request) => completeLogin(deps, request, request.body),
  });

  route("setUpMfa", "POST", "/auth/mfa/setup", {
    summary: "Begin to set up a second factor",
    description:
      "With an access token and the password: 403 `email_not_verified` while the account's credentials are not proven, see " +
      "`POST /auth/verify-email`. Without an access token, for a login that answered `requireMfaEnrollment`: its " +
      `\`tempToken\` instead of the password. ${OWN_LEVEL}`,
    policy: {
      auth: "authenticated",
      limitClass: "account",
      action: "auth.mfa.setup",
      orTokenInBody: "tempToken",
    },
    schema: { body: SetUpBody },
    answers: answersWith("For an authenticator app. Nothing is on yet.", enrollmentAnswer),
    codes: [
      "step_up_required",
      "invalid_credentials",
      "mfa_token_invalid",
      "email_not_verified",
      "mfa_already_enabled",
      "busy",
    ],
    identify: (request) => setUp(deps, request, request.body),
  });

  route("enableMfa", "POST", "/auth/mfa/enable", {
    summary: "Turn the second factor on",
    description:
      "Every other session ends. With the `tempToken` of a login that answered `requireMfaEnrollment`, in place of an access " +
      `token, the login is complete: the answer has its tokens too. Only the first second factor gives recovery codes. ${OWN_LEVEL}`,
    policy: {
      auth: "authenticated",
      limitClass: "account",
      action: "auth.mfa.enable",
      orTokenInBody: "tempToken",
      cookies: "session",
    },
    headers: deviceHeader,
    schema: { body: EnableBody },
    answers: answersWith("It is on.", z.union([recoveryCodesAnswer, enrolledLoginAnswer]), loginHeaders),
    codes: [
      "step_up_required",
      "mfa_code_invalid",
      "mfa_token_invalid",
      "email_not_verified",
      "mfa_already_enabled",
    ],
    identify: (request) => enable(deps, request, request.body),
  });

  route("disableMfa", "POST", "/auth/mfa/disable", {
    summary: "Turn the second factor off",
    description: "Every other session ends.",
    policy: { auth: "authenticated", limitClass: "account", action: "auth.mfa.disable" },
    schema: { body: z.strictObject({ password: passwordField, code: codeField }) },
    answers: answersWith("It is off."),
    codes: ["invalid_credentials", "mfa_code_invalid", "mfa_required", "busy"],
    handler: async (request) => {
      const proof = { ...request.body, ...ownerOf(request) };
      const { endedSessionIds } = await identity.disableTotp(proof, request.state.call);
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
      const proof = { ...request.body, ...ownerOf(request) };
      const { recoveryCodes } = await identity.regenerateRecoveryCodes(proof, request.state.call);
      return success({ recoveryCodes }, "Keep the recovery codes.");
    },
  });
}

async function completeLogin(deps: AuthDeps, request: FastifyRequest, body: z.output<typeof LoginBody>) {
  const { tempToken, trustDevice = false } = body;
  const origin = { ...clientOf(request), deviceToken: deviceTokenOf(request) };
  const attempt = { tempToken, ...toCodeOrPasskey(body), ...origin, trustDevice };
  const answer = await deps.identity.completeMfaLogin(attempt, request.state.call);
  return endReplacedSession(deps, request, loginAnswer(answer.result?.result));
}

async function setUp({ identity }: AuthDeps, request: FastifyRequest, body: z.output<typeof SetUpBody>) {
  const { call } = request.state;
  if ("tempToken" in body) {
    const { userId, ...begun } = await identity.beginTotpEnrollmentAtLogin(body, call);
    return { body: setUpAnswer(begun), actor: { userId } };
  }
  const enrollment = { ...body, ...ownerOf(request) };
  return { body: setUpAnswer(await identity.beginTotpEnrollment(enrollment, call)), actor: null };
}

async function enable(deps: AuthDeps, request: FastifyRequest, body: z.output<typeof EnableBody>) {
  const { identity, verifier } = deps;
  const { call } = request.state;
  if ("tempToken" in body) {
    const attempt = { ...body, ...clientOf(request), deviceToken: deviceTokenOf(request) };
    const enrolled = await identity.completeTotpEnrollmentAtLogin(attempt, call);
    return endReplacedSession(deps, request, enrolledAnswer(enrolled, ENABLED));
  }
  const confirmation = { ...body, ...ownerOf(request) };
  const { recoveryCodes, endedSessionIds } = await identity.confirmTotpEnrollment(confirmation, call);
  for (const id of endedSessionIds) verifier.refuseSession(id);
  return { body: success({ recoveryCodes }, ENABLED), actor: null };
}
