import { callUnary } from "#kit/rpc/rpc-client.ts";
import { UserAdminServiceClient, UserStatus } from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import type { Command } from "../../command.ts";
import { UsageError } from "../../usage-error.ts";
import { oneOf } from "../one-of.ts";
import { table } from "../table.ts";
import { roleNamed, STATUSES, userView } from "./user-view.ts";

const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 100;

export const usersList: Command = {
  name: "users list",
  summary: "Show users, newest first, a page at a time",
  positionals: [],
  options: {
    query: { type: "string", value: "text", description: "only users with this text in address or name" },
    role: { type: "string", value: "role", description: "only users of this role" },
    status: { type: "string", value: "status", description: "only active or disabled" },
    limit: { type: "string", value: "count", description: `1 to ${MAX_LIMIT}; default ${DEFAULT_LIMIT}` },
    cursor: { type: "string", value: "id", description: "continue after the previous page" },
  },
  async run({ values }, backend) {
    const request = {
      query: values.get("query") ?? "",
      role: values.has("role") ? roleNamed("--role", values.get("role")) : "",
      status: values.has("status")
        ? oneOf("--status", STATUSES, values.get("status"))
        : UserStatus.UNSPECIFIED,
      ids: [],
      cursor: values.get("cursor") ?? "",
      limit: limitOf(values.get("limit")),
    };
    const answer = await backend.call("identity-service", UserAdminServiceClient, (client, context) =>
      callUnary(client, client.listUsers, request, context),
    );
    const users = answer.users.map(userView);
    const nextCursor = answer.nextCursor || null;
    const rows = users.map(({ id, email, role, status, createdAt, lastLoginAt }) => [
      id,
      email,
      role,
      status,
      createdAt ?? "",
      lastLoginAt ?? "never",
    ]);
    const page = table(["ID", "E-MAIL", "ROLE", "STATUS", "CREATED", "LAST LOGIN"], rows);
    const more = nextCursor === null ? "" : `\nMore: --cursor ${nextCursor}`;
    return { text: `${page}${more}`, json: { users, nextCursor } };
  },
};

function limitOf(text: string | undefined): number {
  if (text === undefined) return DEFAULT_LIMIT;
  const limit = Number(text);
  if (/^\d+$/.test(text) && limit >= 1 && limit <= MAX_LIMIT) return limit;
  throw new UsageError(`--limit must be 1 to ${MAX_LIMIT}`);
}
