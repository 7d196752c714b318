import { styleText } from "node:util";
import type { Command } from "../command.ts";
import { examine } from "../doctor/examine.ts";
import type { Finding } from "../doctor/finding.ts";
import { readKnownSystem } from "../doctor/known-system.ts";
import { EXIT } from "../exit-code.ts";
import { wrap } from "../help-text.ts";

const COLOURS = { ok: "green", warning: "yellow", FAILED: "red" } as const;
const SHOWN = { ok: "ok", warning: "warning", failed: "FAILED" } as const;
const RESULTS = Object.keys(SHOWN) as Finding["result"][];
const WIDTH = Math.max(...Object.values(SHOWN).map(({ length }) => length));

export const doctor: Command = {
  name: "doctor",
  summary: "Look for what is wrong: clocks, certificates, ports, versions, rights, databases",
  details:
    "Each warning and each failure, by what it is about: what was found, and what to do. What failed stands last, and then how " +
    "many checks were ok, which --verbose names. A check that could not be made is a warning and says why. It changes nothing, and waits for nothing longer than 15 s.\n" +
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
    const shown = checks.filter(({ result }) => result !== "ok" || flags.has("verbose"));
    return {
      text: [...bySubject(shown), summaryOf(counts)].join("\n"),
      paint,
      json: { isSound: counts.failed === 0, ...counts, checks },
      exitCode: counts.failed === 0 ? EXIT.ok : EXIT.failed,
    };
  },
};

/** What has a failure stands last. */
function bySubject(checks: readonly Finding[]): string[] {
  const worst = (findings: readonly Finding[]) =>
    Math.max(...findings.map(({ result }) => RESULTS.indexOf(result)));
  return [...Map.groupBy(checks, ({ subject }) => subject)]
    .toSorted(([, a], [, b]) => worst(a) - worst(b))
    .flatMap(([subject, findings]) => [subject, ...findings.map(line)]);
}

function line({ result, area, found, action }: Finding): string {
  const what = `${area}: ${found.replace(/(?<![.?])$/, ".")}${action === "" ? "" : ` ${action}.`}`;
  const indent = " ".repeat(WIDTH + 4);
  return wrap(`${indent}${what}`, indent).replace(indent, `  ${SHOWN[result].padEnd(WIDTH + 2)}`);
}

/** `56 ok`, or `53 ok, 2 warnings, 1 failed`. */
function summaryOf({ ok, warnings, failed }: { ok: number; warnings: number; failed: number }): string {
  const more = [
    ...(warnings === 0 ? [] : [`${warnings} warning${warnings === 1 ? "" : "s"}`]),
    ...(failed === 0 ? [] : [`${failed} failed`]),
  ];
  return [`${ok} ok`, ...more].join(", ");
}

function paint(text: string): string {
  const style = (format: Parameters<typeof styleText>[0], part: string) =>
    styleText(format, part, { validateStream: false });
  if (!text.startsWith(" ")) return style("bold", text);
  return text.replace(
    /^ {2}(ok|warning|FAILED)(?= )/,
    (_all, result: keyof typeof COLOURS) => `  ${style(COLOURS[result], result)}`,
  );
}
