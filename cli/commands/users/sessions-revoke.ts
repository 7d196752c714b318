import { callUnary } from "#kit/rpc/rpc-client.ts";
import { SessionServiceClient } from "#proto/gatehouse/token/v1/session_service.ts";
import type { Command } from "../../command.ts";
import { UsageError } from "../../usage-error.ts";
import { readTime } from "../time-of.ts";

const MAX_REASON_CHARACTERS = 200;

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

export const sessionsRevokeAll: Command = {
  name: "sessions revoke-all",
  summary: "End all sessions that began before a time, and ban every signing key",
  details:
    "After token-service's database was restored or leaked: docs/operations/backup-and-restore.md. Every user\n" +
    "concerned has to log in again. Access tokens of younger sessions are refused too, until their next refresh.\n" +
    "If it is interrupted, start it again with the same time.",
  positionals: [],
  options: {
    "issued-before": {
      type: "string",
      value: "time",
      required: true,
      description: "the time, such as 2026-11-21T09:30:00Z, or now",
    },
    reason: { type: "string", value: "text", required: true, description: "why, for the audit log" },
    yes: { type: "boolean", description: "confirm: this logs out every user" },
  },
  checkWith: "gatehouse keys list",
  async run({ flags, values }, backend) {
    if (!flags.has("yes")) throw new UsageError("This logs out every user: add --yes");
    const issuedBefore = momentOf(values.get("issued-before") ?? "");
    const reason = reasonOf(values.get("reason") ?? "");
    const bannedKeyIds: string[] = [];
    let ended = 0;
    let cursor = "";
    do {
      const request = { issuedBefore, reason, cursor };
      const part = await backend.call("token-service", SessionServiceClient, (client, context) =>
        callUnary(client, client.revokeAllSessions, request, context),
      );
      ended += part.ended;
      bannedKeyIds.push(...part.bannedKeyIds);
      cursor = part.nextCursor;
    } while (cursor !== "");
    const sessions = `${ended} session${ended === 1 ? " has" : "s have"} ended`;
    return {
      text: `${sessions}; ${bannedKeyIds.length} signing keys are banned: ${bannedKeyIds.join(" ")}`,
      json: { issuedBefore: issuedBefore?.toISOString() ?? "now", ended, bannedKeyIds },
    };
  },
};

/** Undefined: now, by token-service's clock. No part of a millisecond, which would be cut off. */
function momentOf(text: string): Date | undefined {
  if (text === "now") return undefined;
  const moment = /\.\d{4}/.test(text) ? undefined : readTime(text);
  if (moment !== undefined) return moment;
  throw new UsageError("--issued-before must be a time like 2026-11-21T09:30:00Z, or now");
}

function reasonOf(text: string): string {
  const reason = text.trim();
  if ([...reason].length > MAX_REASON_CHARACTERS) {
    throw new UsageError(`--reason must have 1 to ${MAX_REASON_CHARACTERS} characters`);
  }
  return reason;
}
