import { newCallContext } from "#kit/rpc/call-context.ts";
import { callUnary } from "#kit/rpc/rpc-client.ts";
import {
  type ListUsedApprovalsRequest,
  type UsedApproval,
  UserAdminServiceClient,
} from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import { type ApprovalLine, EvidenceWriter } from "../../approval-verifier/evidence-file.ts";
import type { Backend } from "../../backend.ts";
import type { Command } from "../../command.ts";
import { createProgress, QUIET_OPTION } from "../progress.ts";
import { replaceFile } from "../replaced-file.ts";
import { timeOf } from "../time-of.ts";

const PAGE = 100;
const PAGE_BUDGET_MS = 10_000;

export const approvalsExport: Command = {
  name: "approvals export",
  summary: "Write the evidence of used approvals to a file, in the order of their use",
  details:
    "gatehouse approvals prove needs it. The file is complete or absent. It says who has paid what to whom: keep it\n" +
    "as carefully as the database.",
  positionals: [],
  options: {
    from: {
      type: "string",
      value: "time",
      description: "first used at this time or later: 2026-11-21T09:30:00Z",
    },
    to: { type: "string", value: "time", description: "first used before this time" },
    output: { type: "string", value: "file", required: true, description: "write to this file" },
    force: { type: "boolean", description: "replace an existing file" },
    ...QUIET_OPTION,
  },
  async run({ values, flags }, backend, terminal) {
    const output = values.get("output") ?? "";
    const range = { from: timeOf(values, "from"), to: timeOf(values, "to") };
    const writer = new EvidenceWriter();
    using progress = createProgress(terminal, flags, "approvals");
    await replaceFile(output, { force: flags.has("force") }, async (file, signal) => {
      await file.writeFile(writer.head());
      for await (const approvals of usedApprovals(backend, range)) {
        signal.throwIfAborted();
        await file.writeFile(writer.lines(approvals.map(toLine)));
        progress.show(writer.approvals, 0);
      }
      await file.writeFile(writer.end());
    });
    const { approvals } = writer;
    return {
      text: `${approvals === 1 ? "1 approval was" : `${approvals} approvals were`} written to ${output}`,
      json: { approvals, output },
    };
  },
};

async function* usedApprovals(
  backend: Backend,
  range: Pick<ListUsedApprovalsRequest, "from" | "to">,
): AsyncGenerator<UsedApproval[]> {
  let cursor = "";
  do {
    const request = { ...range, cursor, limit: PAGE };
    const page = await backend.call("identity-service", UserAdminServiceClient, (client) =>
      callUnary(client, client.listUsedApprovals, request, newCallContext({ budgetMs: PAGE_BUDGET_MS })),
    );
    yield page.approvals;
    cursor = page.nextCursor;
  } while (cursor !== "");
}

function toLine({ id, transaction, digest, method, passkey }: UsedApproval): ApprovalLine {
  const line = {
    type: "approval",
    id,
    transaction,
    digest: Buffer.from(digest).toString("hex"),
    method,
  } as const;
  if (passkey === undefined) return line;
  const { passkeyId, rpId } = passkey;
  return {
    ...line,
    passkey: {
      authenticatorData: base64(passkey.authenticatorData),
      clientData: base64(passkey.clientData),
      credentialId: base64(passkey.credentialId),
      nonce: base64(passkey.nonce),
      passkeyId,
      publicKey: base64(passkey.publicKey),
      rpId,
      signature: base64(passkey.signature),
    },
  };
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("base64");
}
