import {
  type SetUserAccessRequest,
  UserAdminServiceClient,
  UserStatus,
} from "../../proto/gen/gatehouse/identity/v1/user_admin_service.ts";
import { Role } from "../../proto/gen/gatehouse/token/v1/principal.ts";
import { callUnary } from "../../service-kit/rpc-client.ts";
import type { Backend } from "../backend.ts";
import { CliError } from "../cli-error.ts";
import { EXIT } from "../exit-code.ts";
import { type UserView, userView } from "./user-view.ts";

export interface ChangedUser {
  user: UserView;
  endedSessionIds: string[];
}

/** @throws {CliError} also if an older service ignores a part of the change. */
export async function setUserAccess(
  backend: Backend,
  userId: string,
  change: Partial<Omit<SetUserAccessRequest, "userId">>,
): Promise<ChangedUser> {
  const stays = {
    role: Role.UNSPECIFIED,
    roleName: "",
    status: UserStatus.UNSPECIFIED,
    mustChangePassword: undefined,
    reason: "",
  };
  const request = { ...stays, ...change, userId };
  const answer = await backend.call("identity-service", UserAdminServiceClient, (client, context) =>
    callUnary(client, client.setUserAccess, request, context),
  );
  const user = userView(answer.user);
  if ((change.mustChangePassword ?? user.mustChangePassword) !== user.mustChangePassword) {
    throw notSupported("require a new password");
  }
  if ((change.roleName ?? user.role) !== user.role) throw notSupported("give this role");
  return { user, endedSessionIds: answer.endedSessionIds };
}

function notSupported(what: string): CliError {
  const message = `the version of identity-service cannot ${what}`;
  return new CliError(message, { exitCode: EXIT.failed, code: "not_supported" });
}

export function sessionsEnded({ length }: readonly string[]): string {
  return length === 1 ? "1 session has ended" : `${length} sessions have ended`;
}
