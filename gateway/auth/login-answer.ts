import type { CompletedLogin, LoginResult } from "#proto/gatehouse/identity/v1/identity_service.ts";
import { success } from "../edge/answers/envelope.ts";
import type { IdentifiedAnswer } from "../edge/request/route.ts";
import { toUser } from "./answer-fields.ts";
import { readRequestOptions } from "./passkey-fields.ts";

export function loginAnswer(result: LoginResult["result"]): IdentifiedAnswer {
  if (result?.$case === "mfaChallenge") {
    const { tempToken, methods, userId, trustDeviceDays, passkeyOptionsJson } = result.value;
    const passkey = readRequestOptions(passkeyOptionsJson);
    const offer = trustDeviceDays !== undefined && { trustDeviceDays };
    const asked = { requireMfa: true, tempToken, methods, ...(passkey && { passkey }), ...offer };
    const body = success(asked, "The second factor is needed.");
    return { body, actor: { userId } };
  }
  if (result?.$case === "passwordChange") {
    const { tempToken, userId } = result.value;
    const body = success({ requirePasswordChange: true, tempToken }, "The password has to be changed.");
    return { body, actor: { userId } };
  }
  if (result?.$case === "mfaEnrollment") {
    const { tempToken, methods, userId } = result.value;
    const body = success(
      { requireMfaEnrollment: true, tempToken, methods },
      "A second factor has to be set up first.",
    );
    return { body, actor: { userId } };
  }
  const { tokens, user, actor, deviceToken } = toCompletedLogin(result?.value);
  return { body: success({ user }, "Logged in."), tokens, actor, deviceToken };
}

/** Of a factor that was set up at a login. @throws without a session, so that an unknown result does not log in. */
export function enrolledAnswer(
  { result, recoveryCodes }: { result: LoginResult | undefined; recoveryCodes: string[] },
  message: string,
  more: object = {},
): IdentifiedAnswer {
  if (result?.result?.$case !== "completed") throw new Error("the enrollment did not complete the login");
  const { tokens, user, actor, deviceToken } = toCompletedLogin(result.result.value);
  return { body: success({ ...more, user, recoveryCodes }, message), tokens, actor, deviceToken };
}

/** @throws without a session, so that an unknown result does not log in. */
export function toCompletedLogin(message: CompletedLogin | undefined) {
  if (message?.tokens === undefined) {
    throw new Error("identity-service sent a login result that this gateway cannot read");
  }
  const { tokens, deviceToken } = message;
  const user = toUser(message.user);
  const actor = { userId: user.id, role: user.role, sessionId: tokens.sessionId };
  return { tokens, user, actor, deviceToken };
}
