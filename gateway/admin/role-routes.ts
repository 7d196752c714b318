import { z } from "zod";
import { type AccessRules, holdsPermission } from "#access-file/access-rules.ts";
import { roleField } from "../auth/answer-fields.ts";
import { success } from "../edge/answers/envelope.ts";
import { actorOf, principalOf } from "../edge/request/caller.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { textLike } from "../routing/fields.ts";
import { answersWith } from "../routing/route-docs.ts";
import type { AdminPolicy } from "../routing/route-policy.ts";

const roleAnswer = z
  .strictObject({
    name: roleField,
    permissions: z.array(textLike("payments:read")),
    assignable: z.boolean().meta({ description: "Whether the caller may give it to a user." }),
    actable: z.boolean().meta({ description: "Whether the caller may act on users who have it." }),
    mayActOn: z.array(roleField).meta({ description: "Roles on whose users it may act." }),
  })
  .meta({ id: "Role", description: "As this gateway's access file has it at this moment." });

interface RoleDeps {
  access: AccessRules;
  adminPolicy: AdminPolicy;
}

export function registerRoleRoutes(app: GatewayApp, { access, adminPolicy }: RoleDeps): void {
  const route = routeIn(app, "Administration");

  route("listRoles", "GET", "/admin/roles", {
    summary: "List the roles",
    policy: adminPolicy("users:read"),
    answers: answersWith("The roles, in the file's order.", z.strictObject({ roles: z.array(roleAnswer) })),
    handler: async (request) => {
      const caller = actorOf(principalOf(request));
      const mayGive = ["users:write", "roles:assign"].every((name) => holdsPermission(access, caller, name));
      const roles = access.roles.map((name) => ({
        name,
        permissions: [...access.permissionsOf(name)],
        assignable: mayGive && access.mayAssign(caller, name),
        actable: access.mayActOn(caller, name),
        mayActOn: access.roles.filter((other) => access.mayActOn({ role: name }, other)),
      }));
      return success({ roles }, "The roles.");
    },
  });
}
