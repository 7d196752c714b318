import { callUnary } from "#kit/rpc/rpc-client.ts";
import { canonicalEmail } from "#kit/values/canonical-email.ts";
import { UserAdminServiceClient, UserStatus } from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import type { Command } from "../../command.ts";
import { UsageError } from "../../usage-error.ts";
import { REASON_OPTION, reasonOf } from "../reason-option.ts";
import { FROM_DETAILS, FROM_OPTIONS, forEachUser } from "./each-user.ts";
import {
  clientsText,
  DISABLE_CLIENTS,
  LEFT_CLIENTS,
  sessionsEnded,
  setUserAccess,
} from "./set-user-access.ts";
import { roleNamed } from "./user-view.ts";

export const usersDisable: Command = {
  name: "users disable",
  summary: "Disable a user, and end all of the user's sessions",
  details: `${LEFT_CLIENTS}\n${FROM_DETAILS}`,
  positionals: [],
  optionalPositionals: ["id"],
  options: { ...FROM_OPTIONS, ...REASON_OPTION, "disable-clients": DISABLE_CLIENTS },
  checkWith: "gatehouse users show <id>",
  run(input, backend, terminal) {
    const disableClients = input.flags.has("disable-clients");
    const change = { status: UserStatus.DISABLED, disableClients, reason: reasonOf(input) };
    return forEachUser(input, terminal, async (userId) => {
      const changed = await setUserAccess(backend, userId, change);
      const done = `${changed.user.id} is disabled; ${sessionsEnded(changed.endedSessionIds)}`;
      return { text: `${done}${clientsText(changed.clients)}`, json: changed };
    });
  },
};

export const usersEnable: Command = {
  name: "users enable",
  summary: "Enable a disabled user, and forget the failed logins",
  details: FROM_DETAILS,
  positionals: [],
  optionalPositionals: ["id"],
  options: { ...FROM_OPTIONS, ...REASON_OPTION },
  checkWith: "gatehouse users show <id>",
  run(input, backend, terminal) {
    const change = { status: UserStatus.ACTIVE, reason: reasonOf(input) };
    return forEachUser(input, terminal, async (userId) => {
      const changed = await setUserAccess(backend, userId, change);
      return { text: `${changed.user.id} is active`, json: changed };
    });
  },
};

export const usersSetRole: Command = {
  name: "users set-role",
  summary: "Set a user's role, which access.yaml defines; a change ends all of the user's sessions",
  positionals: ["id", "role"],
  options: REASON_OPTION,
  checkWith: "gatehouse users show <id>",
  async run(input, backend) {
    const [userId = "", word] = input.positionals;
    const changed = await setUserAccess(backend, userId, {
      role: roleNamed("<role>", word),
      reason: reasonOf(input),
    });
    const { id, role } = changed.user;
    return { text: `${id} is ${role}; ${sessionsEnded(changed.endedSessionIds)}`, json: changed };
  },
};

export const usersSetName: Command = {
  name: "users set-name",
  summary: "Correct a user's name",
  details: "What is not given stays.",
  positionals: ["id"],
  options: {
    "first-name": { type: "string", value: "name", description: "the new one" },
    "last-name": { type: "string", value: "name", description: "the new one" },
    "no-last-name": { type: "boolean", description: "of a person with one name" },
    ...REASON_OPTION,
  },
  checkWith: "gatehouse users show <id>",
  async run(input, backend) {
    const [userId = ""] = input.positionals;
    const [firstName, typed] = [input.values.get("first-name"), input.values.get("last-name")];
    const hasNone = input.flags.has("no-last-name");
    if (typed !== undefined && hasNone)
      throw new UsageError("--last-name and --no-last-name exclude each other");
    const names = { firstName, lastName: hasNone ? "" : typed };
    if (names.firstName === undefined && names.lastName === undefined)
      throw new UsageError("Give --first-name, --last-name or --no-last-name");
    const { user } = await setUserAccess(backend, userId, { ...names, reason: reasonOf(input) });
    return { text: `${user.id} has the new name`, json: { user } };
  },
};

export const usersSetEmail: Command = {
  name: "users set-email",
  summary: "Mail a link to a user's new address, which counts once it is used",
  details:
    "The link works for 24 hours, without a password, and ends all of the user's sessions. The present address gets a\n" +
    "notice now, and then a way back. Whoever reads the new mailbox can set a new password.\n" +
    "The present address takes back a link that went to a wrong one.",
  positionals: ["id", "address"],
  options: REASON_OPTION,
  checkWith: "gatehouse users show <id>",
  async run(input, backend) {
    const [userId = "", email = ""] = input.positionals;
    const { user } = await setUserAccess(backend, userId, { email, reason: reasonOf(input) });
    const isTakenBack = user.email === canonicalEmail(email);
    const done = isTakenBack ? "keeps the address" : "gets it once the link is used, which waits to be sent";
    return { text: `${user.id} ${done}`, json: { user } };
  },
};

export const usersRequirePasswordChange: Command = {
  name: "users require-password-change",
  summary: "Require a new password for the next session, and end all sessions of a user",
  details:
    "At the next login with the present password, and the second factor if there is one, the user sets a new password.\n" +
    `A new password by a mailed link also counts.\n${FROM_DETAILS}`,
  positionals: [],
  optionalPositionals: ["id"],
  options: {
    ...FROM_OPTIONS,
    ...REASON_OPTION,
    "take-back": { type: "boolean", description: "withdraw the requirement" },
  },
  checkWith: "gatehouse users show <id>",
  run(input, backend, terminal) {
    const mustChangePassword = !input.flags.has("take-back");
    const change = { mustChangePassword, reason: reasonOf(input) };
    return forEachUser(input, terminal, async (userId) => {
      const changed = await setUserAccess(backend, userId, change);
      const { id } = changed.user;
      const text = mustChangePassword
        ? `${id} must change the password; ${sessionsEnded(changed.endedSessionIds)}`
        : `${id} may keep the password`;
      return { text, json: changed };
    });
  },
};

export const usersUnlock: Command = {
  name: "users unlock",
  summary: "Forget a user's failed logins, which delay further ones",
  details: `Includes those of every network and device. Does not enable a disabled user.\n${FROM_DETAILS}`,
  positionals: [],
  optionalPositionals: ["id"],
  options: { ...FROM_OPTIONS, ...REASON_OPTION },
  run(input, backend, terminal) {
    const reason = reasonOf(input);
    return forEachUser(input, terminal, async (userId) => {
      await backend.call("identity-service", UserAdminServiceClient, (client, context) =>
        callUnary(client, client.unlockUser, { userId, reason }, context),
      );
      return { text: `${userId} is unlocked`, json: { userId } };
    });
  },
};
