import {
  ApprovalEntries,
  type ApprovalEntry,
  type ApprovalProof,
  proveApproval,
} from "../../approval-verifier/approval-proof.ts";
import { NotEvidenceError, readEvidence } from "../../approval-verifier/evidence-file.ts";
import { CliError } from "../../cli-error.ts";
import type { Command } from "../../command.ts";
import { EXIT } from "../../exit-code.ts";
import { createProgress } from "../progress.ts";
import { placeText } from "./audit-search.ts";
import { verdictText, verdictView } from "./audit-verdict-text.ts";
import { EXIT_OF, inputError, isFileError, readTrust, TRUST_OPTIONS, verifyFile } from "./audit-verify.ts";

export const approvalsProve: Command = {
  name: "approvals prove",
  summary: "Prove who approved a transaction, when and with what, from exported files",
  details:
    "Needs no running Gatehouse and no network. Verifies the audit log as gatehouse audit verify does, and the approval\n" +
    "with its entries: its digest, its method, and the signature if it was a passkey. Ends with 0 only if everything is\n" +
    "proven; 65 if one of the files was changed, 1 if no signature covers the log's last entries or the approval is not\n" +
    "in the export, 66 if a file cannot be read. What is proven: docs/approvals.md",
  positionals: ["id"],
  options: {
    approvals: {
      type: "string",
      value: "file",
      required: true,
      description: "what gatehouse approvals export has written",
    },
    log: {
      type: "string",
      value: "file",
      required: true,
      description: "what gatehouse audit export has written later",
    },
    origin: {
      type: "string",
      value: "origin",
      multiple: true,
      description: "where passkeys are used; default: https on the passkey's domain or below it",
    },
    ...TRUST_OPTIONS,
  },
  async run({ positionals: [id = ""], values, lists, flags }, _backend, terminal) {
    const trust = await readTrust({ values, lists, flags }, terminal);
    using reading = createProgress(terminal, flags, "approvals");
    const evidence = await readApprovals(values.get("approvals") ?? "", id, (approvals) =>
      reading.show(approvals, 0),
    );
    using progress = createProgress(terminal, flags, "entries");
    const entries = new ApprovalEntries(id);
    const log = await verifyFile(values.get("log") ?? "", trust, progress, (line) => entries.take(line));
    const { approval } = evidence;
    if (approval === undefined && evidence.findings.length === 0 && log.result !== "tampered") {
      throw new CliError(`No used approval in the file has the id ${id}`, {
        exitCode: EXIT.failed,
        code: "not_found",
      });
    }
    const isLogProven = log.result === "proven";
    const proof =
      approval === undefined || !isLogProven
        ? undefined
        : proveApproval(approval, entries.found, lists.get("origin") ?? []);
    const findings = [...evidence.findings, ...(proof?.findings ?? [])];
    const exitCode = findings.length > 0 ? EXIT.tampered : EXIT_OF[log.result];
    const result = exitCode === EXIT.ok ? "proven" : exitCode === EXIT.tampered ? "refuted" : "unproven";
    return {
      text: text(),
      json: { result, findings, approval: proof && viewOf(proof), log: verdictView(log) },
      exitCode,
    };

    function text(): string {
      const titles = {
        proven: "PROVEN: the user has approved this transaction.",
        unproven: "NOT PROVEN: no error was found, but no signature covers the log's last entries.",
        refuted: "REFUTED: the files do not prove this approval.",
      };
      const lines = findings.map(({ code, message }) => `  ${message} [${code}]`);
      const shown = proof === undefined || result !== "proven" ? [] : ["", ...describe(proof)];
      return [titles[result], ...lines, ...shown, "", verdictText(log)].join("\n");
    }
  },
};

async function readApprovals(path: string, id: string, onRead: (approvals: number) => void) {
  try {
    return await readEvidence(path, id, onRead);
  } catch (error) {
    if (error instanceof NotEvidenceError)
      throw inputError(`${path} is not an export of approvals. ${error.message}`, error);
    if (isFileError(error)) throw inputError(`${path} cannot be read: ${error.message}`, error);
    throw error;
  }
}

function describe({
  id,
  transaction,
  method,
  signedBy,
  digest,
  asked,
  given,
  uses,
  calls,
}: ApprovalProof): string[] {
  if (transaction === undefined) return [];
  const { user, session, method: verb, route, fields } = transaction;
  const [first, ...repeated] = uses;
  return [
    `Approval:     ${id}`,
    `User:         ${user}, session ${session}`,
    `Transaction:  ${verb} ${JSON.stringify(route)}`,
    ...Object.entries(fields).map(([pointer, value]) => `  ${pointer}: ${JSON.stringify(value)}`),
    `Digest:       ${digest}`,
    `Asked:        ${at(asked)}`,
    `Given:        ${at(given)}, with ${method}`,
    ...(signedBy === undefined
      ? []
      : [`  passkey ${signedBy.passkeyId}, credential ${signedBy.credentialId}, used at ${signedBy.origin}`]),
    `Used:         ${at(first)}${repeated.length > 0 ? `, repeated with its idempotency key: ${repeated.length}` : ""}`,
    ...(calls.length === 0
      ? ["Call:         the log has no outcome with this approval"]
      : calls.map(callText)),
  ];
}

function at(entry: ApprovalEntry | undefined): string {
  return entry === undefined ? "" : `${entry.occurredAt} (entry ${placeText(entry.log, entry.sequence)})`;
}

function callText(call: ApprovalEntry): string {
  return `Call:         ${at(call)}, ${call.outcome}, HTTP ${call.httpStatus}`;
}

function viewOf({ findings: _findings, ...view }: ApprovalProof): object {
  return view;
}
