import { UserStatus } from "../../proto/gen/gatehouse/identity/v1/user_admin_service.ts";
import type { Command } from "../command.ts";
import { setUserAccess } from "./set-user-access.ts";

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
