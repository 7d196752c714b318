import { callUnary } from "#kit/rpc/rpc-client.ts";
import { KeyServiceClient } from "#proto/gatehouse/token/v1/key_service.ts";
import type { Command } from "../../command.ts";
import { UsageError } from "../../usage-error.ts";

const MAX_REASON_CHARACTERS = 200;

export const keysRevoke: Command = {
  name: "keys revoke",
  summary: "Ban a signing key: every access token that it signed is refused within a second",
  details:
    "Sessions continue: their next refresh gives tokens of another key. This cannot be undone.\n" +
    "A key id that begins with a dash must come last, after two dashes: --reason <text> -- <kid>",
  positionals: ["kid"],
  options: {
    reason: { type: "string", value: "text", required: true, description: "why, for the audit log" },
  },
  checkWith: "gatehouse keys list",
  async run({ positionals, values }, backend) {
    const [keyId = ""] = positionals;
    const reason = (values.get("reason") ?? "").trim();
    if (reason === "" || [...reason].length > MAX_REASON_CHARACTERS) {
      throw new UsageError(`--reason must have 1 to ${MAX_REASON_CHARACTERS} characters`);
    }
    const { sequence } = await backend.call("token-service", KeyServiceClient, (client, context) =>
      callUnary(client, client.revokeSigningKey, { keyId, reason }, context),
    );
    return { text: `${keyId} is revoked (revocation ${sequence})`, json: { keyId, sequence } };
  },
};
