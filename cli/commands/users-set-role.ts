import type { Command } from "../command.ts";
import { oneOf } from "./one-of.ts";
import { sessionsEnded, setUserAccess } from "./set-user-access.ts";
import { ROLES } from "./user-view.ts";

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
