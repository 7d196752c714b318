import { callUnary } from "#kit/rpc/rpc-client.ts";
import { SessionServiceClient } from "#proto/gatehouse/token/v1/session_service.ts";
import type { Command } from "../../command.ts";
import { table } from "../table.ts";

export const sessionsList: Command = {
  name: "sessions list",
  summary: "Show the live sessions of a user, newest first",
  positionals: ["user"],
  options: {},
  async run({ positionals }, backend) {
    const [userId = ""] = positionals;
    const answer = await backend.call("token-service", SessionServiceClient, (client, context) =>
      callUnary(client, client.listSessions, { userId }, context),
    );
    const sessions = answer.sessions.map((session) => ({
      id: session.id,
      createdAt: session.createdAt?.toISOString() ?? null,
      lastUsedAt: session.lastUsedAt?.toISOString() ?? null,
      expiresAt: session.expiresAt?.toISOString() ?? null,
      ip: session.ip,
      userAgent: session.userAgent,
      amr: session.amr,
    }));
    const rows = sessions.map(({ id, createdAt, lastUsedAt, ip, amr, userAgent }) => [
      id,
      createdAt ?? "",
      lastUsedAt ?? "",
      ip,
      amr.join(" "),
      userAgent,
    ]);
    return {
      text: table(["SESSION ID", "CREATED", "LAST USED", "IP", "AMR", "USER AGENT"], rows),
      json: { sessions },
    };
  },
};
