import { UserStatus } from "../../proto/gen/gatehouse/identity/v1/user_admin_service.ts";
import type { Command } from "../command.ts";
import { sessionsEnded, setUserAccess } from "./set-user-access.ts";

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
