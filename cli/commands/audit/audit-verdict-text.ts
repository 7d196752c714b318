import type { Verdict } from "../../audit-verifier/verdict.ts";

const TITLES: Record<Verdict["result"], string> = {
  proven: "PROVEN: the log is as it was signed.",
  unproven: "NOT PROVEN: no error was found, but no signature covers the last entries.",
  tampered: "TAMPERED: this is not the log that was signed.",
};

export function verdictText(verdict: Verdict): string {
  const { result, findings, origin, firstSequence, lastSequence, provenUpTo, trustedUpTo } = verdict;
  const { ofLog, trusted } = verdict.checkpoints;
  const [first] = findings;
  const where = first === undefined ? [] : [firstBadText(first.firstSequence, first.lastSequence)];
  return [
    TITLES[result],
    ...where,
    ...findings.map(({ code, message }) => `  ${message} [${code}]`),
    "",
    `Log:           ${origin}, entries ${firstSequence} to ${lastSequence}`,
    `Proven up to:  ${upTo(provenUpTo)} (checkpoints compared: ${ofLog} of the log, ${trusted} from outside)`,
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
