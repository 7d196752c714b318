import type { FastifyReply, FastifyRequest } from "fastify";
import { keepDeviceToken } from "../edge/device-cookie.ts";
import { success } from "../edge/envelope.ts";
import type { CompletedLogin, UnfinishedLogin } from "./identity-client.ts";
import { tokenResponse } from "./token-response.ts";

/** The answer of every step of a login: the session, or what is missing. Who it is goes into the audit log. */
export function loginAnswer(
  request: FastifyRequest,
  reply: FastifyReply,
  result: CompletedLogin | UnfinishedLogin,
) {
  if ("pending" in result) {
    const { tempToken, methods, userId } = result.pending;
    request.provenActor = { userId };
    return success({ requireMfa: true, tempToken, methods }, "A code of the second factor is needed.");
  }
  if ("passwordChange" in result) {
    const { tempToken, userId } = result.passwordChange;
    request.provenActor = { userId };
    return success({ requirePasswordChange: true, tempToken }, "The password has to be changed.");
  }
  const { tokens, user, deviceToken } = result;
  keepDeviceToken(request, reply, deviceToken);
  request.provenActor = { userId: user.id, role: user.role, sessionId: tokens.sessionId };
  return success({ ...tokenResponse(tokens), user }, "Logged in.");
}
