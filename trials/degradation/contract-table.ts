import { ALL_FAULTS, CALLS, type CallName, HEALTHY, type Row } from "./contract.ts";

const NAMES = Object.keys(CALLS) as CallName[];
const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;

/** The table of docs/degradation.md: what is answered otherwise than in health, and below it the calls and codes. */
export function contractTable(): string {
  const rows: { part: string; ways: string[]; answers: string }[] = [];
  for (const { part, what, expected } of ALL_FAULTS) {
    const answers = answersOf(expected);
    const same = rows.find((row) => row.part === part && row.answers === answers);
    if (same === undefined) rows.push({ part, ways: [what], answers });
    else same.ways.push(what);
  }
  const head = ["What is away", "How", "Answered otherwise"];
  const body = rows.map(({ part, ways, answers }) => [part, ways.join("; "), answers]);
  const codes = new Set(
    ALL_FAULTS.flatMap(({ expected }) => changesOf(expected).map((name) => expected[name])),
  );
  const legend = [...codes].sort().map((answer) => `${answer.replace(" ", " `")}\``);
  const calls = NAMES.map((name) => `${name} ${CALLS[name]}`);
  return `${[head, head.map(() => "---"), ...body].map(line).join("\n")}\n
The calls are ${calls.join(", ")}. The codes are ${legend.join(", ")}.`;
}

const changesOf = (expected: Row) => NAMES.filter((name) => expected[name] !== HEALTHY[name]);

function answersOf(expected: Row): string {
  const statuses = new Set(changesOf(expected).map((name) => expected[name].slice(0, 3)));
  return [...statuses]
    .map((status) => `${status}: ${NAMES.filter((name) => expected[name].startsWith(status)).join(", ")}`)
    .join("; ");
}
