import type { LogsVerdict, Verdict } from "../../audit-verifier/verdict.ts";
import { printable } from "../../printable.ts";

const TITLES: Record<Verdict["result"], string> = {
  proven: "PROVEN: the log is as it was signed.",
  unproven: "NOT PROVEN: no error was found, but no signature covers the last entries.",
  tampered: "TAMPERED: this is not the log that was signed.",
};

const TITLES_OF_ALL: Record<Verdict["result"], string> = {
  proven: "ALL PROVEN: the logs are as they were signed.",
  unproven: "NOT ALL PROVEN: no error was found, but no signature covers the last entries of some.",
  tampered: "TAMPERED: these are not the logs that were signed. At fault:",
};

/** Several logs have an overall line first. */
export function verdictText({ result, logs }: LogsVerdict): string {
  const [only, ...others] = logs;
  if (only !== undefined && others.length === 0) return textOf(only);
  const bad = logs.filter((log) => log.result === "tampered").map(({ origin }) => ` ${printable(origin)}`);
  return [`${TITLES_OF_ALL[result]}${bad.join(",")}`, ...logs.map(textOf)].join("\n\n");
}

/** For `--json`. One log has its verdict alone. */
export function verdictView(verdict: LogsVerdict): Verdict | LogsVerdict {
  const [only, ...others] = verdict.logs;
  return only === undefined || others.length > 0 ? verdict : only;
}

function textOf(verdict: Verdict): string {
  const { result, findings, firstSequence, lastSequence, provenUpTo, trustedUpTo } = verdict;
  const { ofLog, noted, trusted } = verdict.checkpoints;
  const inLog0 = noted === undefined ? "" : `, ${noted} noted in log 0`;
  // The file names its log.
  const origin = printable(verdict.origin);
  const [first] = findings;
  const where = first === undefined ? [] : [firstBadText(first.firstSequence, first.lastSequence)];
  return [
    TITLES[result],
    ...where,
    ...findings.map(({ code, message }) => `  ${printable(message)} [${code}]`),
    "",
    `Log:           ${origin}, entries ${firstSequence} to ${lastSequence}`,
    `Proven up to:  ${upTo(provenUpTo)} (checkpoints compared: ${ofLog} of the log, ${trusted} from outside${inLog0})`,
    `From outside:  ${upTo(trustedUpTo)}`,
    ...(verdict.erasedAddresses > 0
      ? [`Erased:        ${verdict.erasedAddresses} claimed e-mail addresses`]
      : []),
    ...(verdict.caveats.length > 0 ? ["", "Not proven:", ...verdict.caveats.map((text) => `  ${text}`)] : []),
  ].join("\n");
}

function firstBadText(first: number | null, last: number | null): string {
  if (first === null) return "All entries are proven nevertheless.";
  return first === last ? `First bad entry: ${first}` : `First bad entry: one of ${first} to ${last}`;
}

function upTo(sequence: number): string {
  return sequence === 0 ? "nothing" : `entry ${sequence}`;
}
