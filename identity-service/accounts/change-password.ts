import { transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { checkPassword, refuseBreached } from "../passwords/password-policy.ts";
import { type OwnerSession, proveOwner } from "../passwords/prove-owner.ts";
import { isStill } from "../passwords/reauthenticate.ts";
import { hashNewPassword, replacePassword } from "../passwords/replace-password.ts";
import { type EndedSessions, endSessions } from "../sessions/end-sessions.ts";
import { lockAccount } from "../users/account-store.ts";
import type { AccountsDeps } from "./register.ts";

/** Keeps the caller's session. @throws {DomainError} `step_up_required`, `invalid_credentials`, `password_unchanged`, or as `checkPassword`. */
export async function changePassword(
  deps: AccountsDeps,
  request: OwnerSession & {
    userId: string;
    sessionId: string;
    currentPassword: string;
    newPassword: string;
    clientIp: string;
  },
  context: CallContext,
): Promise<EndedSessions> {
  const { userId, sessionId: exceptSessionId, currentPassword, newPassword } = request;
  const claim = { ...request, password: currentPassword };
  const checked = await proveOwner(deps, "changePassword", claim, context.deadlineMs);
  checkPassword(deps.passwordPolicy, newPassword, checked.email, "newPassword");
  await refuseBreached(deps.passwordPolicy, newPassword);
  const passwordHash = await hashNewPassword(deps, checked, request, context.deadlineMs);
  const end = await transaction(deps.sql, async (tx) => {
    const account = await lockAccount(tx, userId);
    if (!isStill(checked, account)) throw new DomainError("invalid_credentials");
    const reason = "password_changed";
    const { clientIp } = request;
    const change = { passwordHash, exceptSessionId, reason, clientIp } as const;
    return replacePassword(tx, deps, { account, ...change }, context);
  });
  deps.wakeMailWorker();
  return { userId, sessionIds: await endSessions(deps, end, context) };
}
