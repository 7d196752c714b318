import { callUnary } from "#kit/rpc/rpc-client.ts";
import { AuditQueryServiceClient } from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { openCheckpoint } from "../../audit-verifier/checkpoint.ts";
import { NoteError, parseVerifierKey } from "../../audit-verifier/signed-note.ts";
import { CliError } from "../../cli-error.ts";
import type { Command } from "../../command.ts";
import { EXIT } from "../../exit-code.ts";
import { logOption } from "../whole-number.ts";

export const auditCheckpoint: Command = {
  name: "audit checkpoint",
  summary: "Show the audit log's latest signed checkpoint, and the key to verify it with",
  details:
    "The log itself reports the key: compare it with your own copy. The last line of the output is for a file of\n" +
    "checkpoints (gatehouse audit verify --checkpoints).",
  positionals: [],
  options: {
    log: { type: "string", value: "number", description: "of this log (default 0)" },
  },
  async run({ values }, backend) {
    const log = logOption(values) ?? 0;
    const { checkpoint, verifierKey } = await backend.call(
      "audit-service",
      AuditQueryServiceClient,
      (client, context) => callUnary(client, client.getCheckpoint, { atLeastSize: 0, log }, context),
    );
    const { size, root, time } = opened(checkpoint, verifierKey);
    const line = { type: "checkpoint", note: checkpoint };
    return {
      text: `${checkpoint}\nVerifier key: ${verifierKey}\n${JSON.stringify(line)}`,
      json: { ...line, size, rootHash: root.toString("base64"), time, verifierKey },
    };
  },
};

function opened(checkpoint: string, verifierKey: string) {
  try {
    return openCheckpoint(checkpoint, [parseVerifierKey(verifierKey)]);
  } catch (error) {
    if (!(error instanceof NoteError)) throw error;
    const message = `The log's checkpoint or key is invalid: it ${error.message}`;
    throw new CliError(message, { exitCode: EXIT.tampered, code: "audit_log_tampered", cause: error });
  }
}
