import { SessionServiceClient } from "../../proto/gen/gatehouse/token/v1/session_service.ts";
import { callUnary } from "../../service-kit/rpc-client.ts";
import type { Command } from "../command.ts";

export const sessionsRevoke: Command = {
  name: "sessions revoke",
  summary: "End one session of a user: its tokens are refused within a second",
  details: "To end all of a user's sessions: gatehouse users end-sessions <id>",
  positionals: ["user", "session"],
  options: {},
  checkWith: "gatehouse sessions list <user>",
  async run({ positionals }, backend) {
    const [userId = "", sessionId = ""] = positionals;
    const { sequence } = await backend.call("token-service", SessionServiceClient, (client, context) =>
      callUnary(client, client.revokeSession, { userId, sessionId, reason: "operator" }, context),
    );
    return { text: `${sessionId} has ended (revocation ${sequence})`, json: { userId, sessionId, sequence } };
  },
};
