import type { Command } from "../command.ts";
import { sessionsEnded, setUserAccess } from "./set-user-access.ts";

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
