import { ALL_FAULTS, CALLS, type CallName, HEALTHY } from "./contract.ts";

const NAMES = Object.keys(CALLS) as CallName[];
const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;

/** The table of docs/degradation.md: an empty cell is answered as in health, any other as its code says below. */
export function contractTable(): string {
  const head = ["What is away", "How", ...NAMES.map((name) => CALLS[name])];
  const rows = ALL_FAULTS.map(({ part, what, expected }) => [
    part,
    what,
    ...NAMES.map((name) => (expected[name] === HEALTHY[name] ? "" : expected[name].slice(0, 3))),
  ]);
  const codes = new Set(
    ALL_FAULTS.flatMap(({ expected }) =>
      NAMES.flatMap((name) => (expected[name] === HEALTHY[name] ? [] : [expected[name]])),
    ),
  );
  const legend = [...codes].sort().map((answer) => `${answer.replace(" ", " `")}\``);
  return `${[head, head.map(() => "---"), ...rows].map(line).join("\n")}\n\nThe codes are ${legend.join(", ")}.`;
}
