import type { Command } from "../command.ts";
import { examine } from "../doctor/examine.ts";
import type { Finding } from "../doctor/finding.ts";
import { readKnownSystem } from "../doctor/known-system.ts";
import { EXIT } from "../exit-code.ts";
import { wrap } from "../help-text.ts";

const SHOWN = { ok: "ok", warning: "warning", failed: "FAILED" } as const;
const RESULTS = Object.keys(SHOWN) as Finding["result"][];
const WIDTH = Math.max(...Object.values(SHOWN).map(({ length }) => length));

export const doctor: Command = {
  name: "doctor",
  summary: "Look for what is wrong: clocks, certificates, ports, versions, rights, databases",
  details:
    "A line for each warning and each failure: what was found, and what to do. What failed stands last, and then how many " +
    "checks were ok, which --verbose names. A check that could not be made is a warning and says why. It changes nothing, and waits for nothing longer than 15 s.\n" +
    "Configurations, databases and Redis are checked as the services use them: with the variables of --variables, of the " +
    "local Gatehouse, or of the service in whose container this runs. Exit code 1 if a check has failed.",
  positionals: [],
  options: {
    variables: {
      type: "string",
      value: "service=file",
      description: "variables of a service, one per line: NAME=value; repeatable",
      multiple: true,
    },
    verbose: { type: "boolean", description: "a line for each check that is ok, too" },
  },
  async run({ lists, flags }, backend) {
    const known = readKnownSystem(lists.get("variables") ?? [], backend);
    const checks = (await examine(known, backend)).toSorted(
      (a, b) => RESULTS.indexOf(a.result) - RESULTS.indexOf(b.result),
    );
    const count = (wanted: Finding["result"]) => checks.filter(({ result }) => result === wanted).length;
    const counts = { ok: count("ok"), warnings: count("warning"), failed: count("failed") };
    const summary = `${counts.ok} ok, ${counts.warnings} warnings, ${counts.failed} failed`;
    const shown = checks.filter(({ result }) => result !== "ok" || flags.has("verbose"));
    return {
      text: [...shown.map(line), summary].join("\n"),
      json: { isSound: counts.failed === 0, ...counts, checks },
      exitCode: counts.failed === 0 ? EXIT.ok : EXIT.failed,
    };
  },
};

function line({ result, area, subject, found, action }: Finding): string {
  const what = `${area} of ${subject}: ${found.replace(/\.$/, "")}.${action === "" ? "" : ` ${action}.`}`;
  const indent = " ".repeat(WIDTH + 2);
  return wrap(`${indent}${what}`, indent).replace(indent, SHOWN[result].padEnd(WIDTH + 2));
}
