import type { Aim, Figure, Quantity, Sample, Subject } from "../figures/figure.ts";
import { quantile } from "./workbench.ts";

/** A line of the table: a quantity of ours, alone or beside one reference. */
export interface Row {
  figure: string;
  /** If there are two. */
  version?: string;
  unit: string;
  ours: Spread;
  parts?: Readonly<Record<string, number>>;
  reference?: { name: string } & Spread;
  /** Ours by the reference: the median of the rounds, each by itself. */
  ratio?: Spread;
  aim?: string;
  verdict?: "meets" | "misses";
}

interface Spread {
  median: number;
  least: number;
  most: number;
}

export type Taken = ReadonlyMap<Subject, readonly Sample[]>;

/** A row for each of ours alone that has an aim or no reference, and one for each of its references. */
export function rowsOf({ name, quantities }: Pick<Figure, "name" | "quantities">, taken: Taken): Row[] {
  const hasVersions = new Set([...taken.keys()].flatMap(({ version }) => version ?? [])).size > 1;
  return quantities.flatMap((quantity) =>
    [...taken].flatMap(([subject, samples]) => {
      if (!subject.isOurs) return [];
      const ours = valuesOf(quantity, samples);
      const base = {
        figure: quantity.name === "" ? name : `${name} ${quantity.name}`,
        ...(hasVersions && subject.version !== undefined && { version: subject.version }),
        unit: quantity.unit,
        ours: spreadOf(ours),
        ...(quantity === quantities[0] && partsOf(samples)),
      };
      const aim = quantity.aims.find(({ of }) => of === undefined);
      const beside = [...taken]
        .filter(([other]) => isReference(other, subject))
        .flatMap(([other, its]) => {
          const values = valuesOf(quantity, its);
          if (values.some(Number.isNaN)) return []; // It has no such quantity.
          const ratio = spreadOf(ours.map((value, round) => value / (values[round] ?? Number.NaN)));
          const itsAim = quantity.aims.find(({ of }) => of !== undefined && other.name.includes(of));
          const reference = { name: other.name, ...spreadOf(values) };
          return { ...base, reference, ratio, ...judged(itsAim, ratio.median) };
        });
      const alone =
        aim !== undefined || beside.length === 0 ? [{ ...base, ...judged(aim, base.ours.median) }] : [];
      return [...alone, ...beside];
    }),
  );
}

const isReference = (other: Subject, ours: Subject) =>
  !other.isOurs && (other.version === undefined || other.version === ours.version);

const valuesOf = ({ name }: Quantity, samples: readonly Sample[]) =>
  samples.map(({ values }) => values[name] ?? Number.NaN);

function spreadOf(values: readonly number[]): Spread {
  return { median: quantile(values, 0.5), least: Math.min(...values), most: Math.max(...values) };
}

/** Of each part its median. */
function partsOf(samples: readonly Sample[]): Pick<Row, "parts"> {
  const names = Object.keys(samples[0]?.parts ?? {});
  if (names.length === 0) return {};
  const medianOf = (name: string) =>
    quantile(
      samples.map(({ parts }) => parts?.[name] ?? Number.NaN),
      0.5,
    );
  return { parts: Object.fromEntries(names.map((name) => [name, medianOf(name)])) };
}

function judged(aim: Aim | undefined, value: number): Pick<Row, "aim" | "verdict"> {
  if (aim === undefined) return {};
  const { atMost, atLeast } = aim;
  const isMet =
    value <= (atMost ?? Number.POSITIVE_INFINITY) && value >= (atLeast ?? Number.NEGATIVE_INFINITY);
  return { aim: atMost === undefined ? `≥ ${atLeast}` : `≤ ${atMost}`, verdict: isMet ? "meets" : "misses" };
}

/** Short enough to read, exact enough to compare. */
export function rounded(value: number): string {
  if (!Number.isFinite(value)) return "?";
  return value >= 1_000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
}

const spread = ({ median, least, most }: Spread) => `${rounded(median)} [${rounded(least)}–${rounded(most)}]`;

const HEAD = ["figure", "ours", "reference", "ratio", "aim", ""];

/** In Markdown, with columns as wide as their widest cell. The parts of a row stand below it. */
export function tableOf(rows: readonly Row[]): string {
  const lines = rows.map(({ figure, version, unit, ours, reference, ratio, aim = "", verdict = "" }) => [
    version === undefined ? figure : `${figure} @ ${version}`,
    `${spread(ours)} ${unit}`.trimEnd(),
    reference === undefined ? "" : `${reference.name}: ${spread(reference)}`,
    ratio === undefined ? "" : spread(ratio),
    aim,
    verdict,
  ]);
  const all = [HEAD, ...lines];
  const widths = HEAD.map((_, column) => Math.max(...all.map((cells) => cells[column]?.length ?? 0)));
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  const rule = `| ${widths.map((width) => "-".repeat(Math.max(width, 3))).join(" | ")} |`;
  return [line(HEAD), rule, ...lines.map(line)].join("\n");
}

/** What each process has of the figures that are sums, one line a figure. */
export function partLines(rows: readonly Row[]): string[] {
  const lines = rows.flatMap(({ figure, version, unit, parts }) => {
    if (parts === undefined) return [];
    const each = Object.entries(parts).map(([name, value]) => `${name} ${rounded(value)}`);
    return [`${figure}${version === undefined ? "" : ` @ ${version}`}, ${unit}: ${each.join(", ")}`];
  });
  return [...new Set(lines)];
}
