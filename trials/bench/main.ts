import { mkdir, writeFile } from "node:fs/promises";
import { cpus, release } from "node:os";
import { checkOut, findCommit, ROOT } from "../rolling/version.ts";
import type { Figure } from "./figures/figure.ts";
import { FIGURES } from "./figures/figures.ts";
import { Bench } from "./support/bench.ts";
import { type Options, parseOptions } from "./support/options.ts";
import { profileServices } from "./support/profile.ts";
import { partLines, type Row, rowsOf, tableOf } from "./support/report.ts";
import { takeRounds, warmUp } from "./support/rounds.ts";

const EXIT_USAGE = 64;
const USAGE = `npm run bench [-- [figure…] [--against <commit>] [--rounds <number>] [--peers] [--json <file>] [--profile <folder>]]

Measures what Gatehouse costs, on a system of its own as npm start runs it. Linux only.

  --against <commit>  the same of another commit, in turns
  --rounds <number>   of which the table has the median and the spread (5)
  --peers             also the identity servers, and the gateways without an aim, that trials/bench/peers/setup.sh installs
  --json <file>       everything that the table has, for programs
  --profile <folder>  instead of measuring: a CPU profile of each service under each figure's load

${FIGURES.map(({ name, shows }) => `  ${name.padEnd(22)} ${shows}`).join("\n")}`;

interface Result {
  rows: Row[];
  missing: string[];
}

async function main(): Promise<number> {
  const options = optionsOrUsage();
  if (options === undefined) return EXIT_USAGE;
  if (options.help) {
    console.log(USAGE);
    return 0;
  }
  const { against, names, peers } = options;
  const other = against === undefined ? [] : [checkOut(findCommit(against))];
  const figures = FIGURES.filter(({ name }) => names.length === 0 || names.includes(name));
  process.setMaxListeners(100); // Each peer ends with this process.
  const bench = await Bench.open([{ name: "this", root: ROOT }, ...other], peers);
  const stop = () => void bench.close().finally(() => process.exit(1));
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, stop);
  try {
    await (options.profile === undefined
      ? measure(bench, figures, options)
      : profile(bench, figures, options.profile));
    return 0;
  } finally {
    await bench.close();
  }
}

function optionsOrUsage(): Options | undefined {
  try {
    return parseOptions(
      process.argv.slice(2),
      FIGURES.map(({ name }) => name),
    );
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    console.error(`${error.message}\n\n${USAGE}`);
    return undefined;
  }
}

async function measure(bench: Bench, figures: readonly Figure[], { rounds, json }: Options): Promise<void> {
  const result: Result = { rows: [], missing: [] };
  for (const figure of figures) {
    console.error(`${figure.name}: ${figure.shows}`);
    const { subjects, missing = [], end } = await figure.prepare(bench);
    try {
      const { coldRounds } = figure;
      const how = { rounds: coldRounds ?? rounds, isCold: coldRounds !== undefined };
      const taken = await takeRounds(subjects, how, (text) => console.error(`  ${text}`));
      result.rows.push(...rowsOf(figure, taken));
      result.missing.push(...missing.map((text) => `${figure.name}: ${text}`));
    } finally {
      await end?.();
    }
  }
  const machine = `${cpus().length} × ${cpus()[0]?.model}, Linux ${release()}, Node ${process.versions.node}`;
  const about = { date: new Date().toISOString(), commit: findCommit("HEAD"), machine, rounds };
  console.log(
    `\n${about.date}, ${about.commit.slice(0, 12)}, ${machine}, medians of ${rounds} rounds [least–most]\n`,
  );
  console.log(tableOf(result.rows));
  for (const [title, lines] of [
    ["By process", partLines(result.rows)],
    ["Not measured", result.missing],
  ] as const)
    if (lines.length > 0) console.log(`\n${title}:\n${lines.map((line) => `- ${line}`).join("\n")}`);
  if (json !== undefined) await writeFile(json, `${JSON.stringify({ ...about, ...result }, undefined, 2)}\n`);
}

async function profile(bench: Bench, figures: readonly Figure[], folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  for (const figure of figures) {
    const { subjects, end } = await figure.prepare(bench);
    const [ours] = subjects.filter(({ isOurs }) => isOurs);
    const [system] = await bench.systems();
    if (ours !== undefined && system !== undefined) {
      await warmUp(ours, (text) => console.error(text));
      for (const file of await profileServices(system, `${folder}/${figure.name}`, () => ours.sample()))
        console.log(file);
    }
    await end?.();
  }
}

process.exitCode = await main();
