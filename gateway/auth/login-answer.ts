import type { FastifyReply, FastifyRequest } from "fastify";
import type {
  ChangePasswordAtLoginResponse,
  CompletedLogin,
  CompleteMfaLoginResponse,
  LoginResult,
} from "../../proto/gen/gatehouse/identity/v1/identity_service.ts";
import type { TokenPair } from "../../proto/gen/gatehouse/token/v1/principal.ts";
import { keepDeviceToken } from "../edge/device-cookie.ts";
import { success } from "../edge/envelope.ts";
import { toUser } from "./answer-fields.ts";

/** The answer of every step of a login. The audit log gets the user. */
export function loginAnswer(request: FastifyRequest, reply: FastifyReply, result: LoginResult["result"]) {
  if (result?.$case === "mfaChallenge") {
    const { tempToken, methods, userId } = result.value;
    request.provenActor = { userId };
    return success({ requireMfa: true, tempToken, methods }, "A code of the second factor is needed.");
  }
  if (result?.$case === "passwordChange") {
    const { tempToken, userId } = result.value;
    request.provenActor = { userId };
    return success({ requirePasswordChange: true, tempToken }, "The password has to be changed.");
  }
  const { tokens, user, actor, deviceToken } = toCompletedLogin(result?.value);
  keepDeviceToken(request, reply, deviceToken);
  request.provenActor = actor;
  return success({ ...tokenResponse(tokens), user }, "Logged in.");
}

/** The result of a later step of a login. The previous version of identity-service uses other fields. */
export function resultOf(
  answer: CompleteMfaLoginResponse | ChangePasswordAtLoginResponse,
): LoginResult["result"] {
  if (answer.result !== undefined) return answer.result.result;
  if ("passwordChange" in answer && answer.passwordChange !== undefined)
    return { $case: "passwordChange", value: answer.passwordChange };
  return answer.completed && { $case: "completed", value: answer.completed };
}

/** @throws if there is no session in it, so that an unknown result does not log in. */
export function toCompletedLogin(message: CompletedLogin | undefined) {
  if (message?.tokens === undefined) {
    throw new Error("identity-service sent a login result that this gateway cannot read");
  }
  const { tokens, deviceToken } = message;
  const user = toUser(message.user);
  const actor = { userId: user.id, role: user.role, sessionId: tokens.sessionId };
  return { tokens, user, actor, deviceToken };
}

/** As in RFC 6749 §5.1, in camelCase. */
export function tokenResponse({ accessToken, refreshToken, expiresInS }: TokenPair) {
  return { accessToken, refreshToken, tokenType: "Bearer", expiresIn: expiresInS };
}
