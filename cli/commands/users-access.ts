import {
  UserAdminServiceClient,
  UserStatus,
} from "../../proto/gen/gatehouse/identity/v1/user_admin_service.ts";
import { callUnary } from "../../service-kit/rpc-client.ts";
import type { Command } from "../command.ts";
import { oneOf } from "./one-of.ts";
import { sessionsEnded, setUserAccess } from "./set-user-access.ts";
import { ROLES } from "./user-view.ts";

export const usersDisable: Command = {
  name: "users disable",
  summary: "Keep a user out and end every session of theirs",
  positionals: ["id"],
  options: {},
  checkWith: "gatehouse users show <id>",
  async run({ positionals }, backend) {
    const [userId = ""] = positionals;
    const changed = await setUserAccess(backend, userId, { status: UserStatus.DISABLED });
    return {
      text: `${changed.user.id} is disabled; ${sessionsEnded(changed.endedSessionIds)}`,
      json: changed,
    };
  },
};

export const usersEnable: Command = {
  name: "users enable",
  summary: "Let a disabled user in again, and forget the failures that slow the logins down",
  positionals: ["id"],
  options: {},
  checkWith: "gatehouse users show <id>",
  async run({ positionals }, backend) {
    const [userId = ""] = positionals;
    const changed = await setUserAccess(backend, userId, { status: UserStatus.ACTIVE });
    return { text: `${changed.user.id} is active`, json: changed };
  },
};

export const usersSetRole: Command = {
  name: "users set-role",
  summary: "Change what a user may do: USER, ADMIN or AUDITOR; a change ends every session of theirs",
  positionals: ["id", "role"],
  options: {},
  checkWith: "gatehouse users show <id>",
  async run({ positionals }, backend) {
    const [userId = "", word] = positionals;
    const changed = await setUserAccess(backend, userId, { role: oneOf("<role>", ROLES, word) });
    const { id, role } = changed.user;
    return { text: `${id} is ${role}; ${sessionsEnded(changed.endedSessionIds)}`, json: changed };
  },
};

export const usersRequirePasswordChange: Command = {
  name: "users require-password-change",
  summary: "End every session of a user and give none before the password was changed",
  details:
    "At the next login with the right password, and the second factor where there is one, the user sets a new password\n" +
    "and is in. A new password by a mailed link does as well.",
  positionals: ["id"],
  options: {
    "take-back": { type: "boolean", description: "the present password may stay" },
  },
  checkWith: "gatehouse users show <id>",
  async run({ positionals, flags }, backend) {
    const [userId = ""] = positionals;
    const mustChangePassword = !flags.has("take-back");
    const changed = await setUserAccess(backend, userId, { mustChangePassword });
    const { id } = changed.user;
    const text = mustChangePassword
      ? `${id} must change the password; ${sessionsEnded(changed.endedSessionIds)}`
      : `${id} may keep the password`;
    return { text, json: changed };
  },
};

export const usersUnlock: Command = {
  name: "users unlock",
  summary: "Forget the failures that slow a user's logins down",
  details: "Those of every network and device, too. Whether the user is disabled stays as it is.",
  positionals: ["id"],
  options: {},
  async run({ positionals }, backend) {
    const [userId = ""] = positionals;
    await backend.call("identity-service", UserAdminServiceClient, (client, context) =>
      callUnary(client, client.unlockUser, { userId }, context),
    );
    return { text: `${userId} is unlocked`, json: { userId } };
  },
};
