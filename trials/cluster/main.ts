import { writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import {
  applyTrial,
  assertReachable,
  chooseContext,
  contexts,
  install,
  isInstalled,
  loadImage,
  makeCluster,
  TrialRefused,
} from "./context.ts";
import { type Disturbance, disturbances, imageOf } from "./disturbances.ts";
import { createKubectl, KubectlFailed, WORKLOADS, type Workload } from "./kubectl.ts";
import { type RunningLoad, startLoad } from "./load-pod.ts";
import { failureSummary, hasFailed, type Result, resultOf, table } from "./report.ts";

/** `npm run trial -- cluster`: see trials/cluster/README.md. Ends with 1 if a call failed or a disturbance did not come to its end. */

const EXIT_USAGE = 64;
/** For calls that were under way, and what a disturbance leaves behind. */
const AFTERWARDS_MS = 10_000;
const IMAGE = "gatehouse:0.1.0";
/** The ways to the gateway, with the folders of their manifests. */
const WAYS = {
  direct: { url: "http://gateway", host: "localhost:8080" },
  contour: { url: "http://envoy.projectcontour", host: "auth.example.com" },
} as const;
/** These have no setting of their own. */
const ORDINARY = [
  "baseline",
  "restart",
  "scale",
  "drain",
  "delete",
  "force",
  "certificates",
  "secrets",
  "configuration",
  "spool",
  "together",
];

const say = (text: string) => process.stderr.write(`${text}\n`);

function settingsOf(args: readonly string[]) {
  const { values } = parseArgs({
    args: [...args],
    options: {
      context: { type: "string" },
      make: { type: "string" },
      rate: { type: "string", default: "500" },
      logins: { type: "string", default: "0.05" },
      only: { type: "string" },
      workloads: { type: "string" },
      way: { type: "string", default: "direct" },
      "at-once": { type: "boolean", default: false },
      times: { type: "string", default: "1" },
      "baseline-seconds": { type: "string", default: "30" },
      "other-image": { type: "string" },
      "kill-with": { type: "string" },
      output: { type: "string" },
    },
  });
  const { make: tool, "other-image": otherImage, "kill-with": killWith } = values;
  const make = (["kind", "k3d"] as const).find((each) => each === tool);
  if (tool !== make) throw new TrialRefused("--make takes kind or k3d");
  const way = (Object.keys(WAYS) as (keyof typeof WAYS)[]).find((each) => each === values.way);
  if (way === undefined) throw new TrialRefused(`--way takes ${Object.keys(WAYS).join(" or ")}`);
  const rate = Number(values.rate);
  if (!(rate >= 1 && rate <= 5_000)) throw new TrialRefused("--rate takes 1 to 5000 calls a second");
  const logins = Number(values.logins);
  if (!(logins >= 0 && logins <= 1)) throw new TrialRefused("--logins takes the share of the calls, 0 to 1");
  const times = Number(values.times);
  if (!(Number.isInteger(times) && times >= 1)) throw new TrialRefused("--times takes a whole number from 1");
  return {
    context: values.context,
    output: values.output,
    make,
    way,
    rate,
    logins,
    times,
    workloads: chooseWorkloads(values.workloads),
    atOnce: values["at-once"],
    otherImage,
    killWith,
    baselineSeconds: Number(values["baseline-seconds"]),
    only: values.only?.split(",") ?? [
      ...ORDINARY,
      ...(killWith === undefined ? [] : ["kill"]),
      ...(otherImage === undefined ? [] : ["versions"]),
    ],
  };
}

function chooseWorkloads(names: string | undefined): readonly Workload[] {
  if (names === undefined) return WORKLOADS;
  return names.split(",").map((name) => {
    const workload = WORKLOADS.find((each) => each.name === name);
    const known = WORKLOADS.map((each) => each.name).join(", ");
    if (workload === undefined) throw new TrialRefused(`--workloads takes ${known}; not ${name}`);
    return workload;
  });
}

async function tried(
  disturbance: Disturbance,
  load: RunningLoad,
  reconnectedBefore: number,
): Promise<Result> {
  const { name } = disturbance;
  const began = performance.now();
  const outcome = await disturbance.run().then(
    (note) => ({ note }),
    (error: unknown) => {
      const problem = error instanceof Error ? error.message : String(error);
      return { note: `**not to its end**: ${problem.split("\n")[0]}`, problem };
    },
  );
  const seconds = (performance.now() - began) / 1_000;
  await sleep(AFTERWARDS_MS);
  return resultOf({ name, seconds, ...outcome }, await load.linesSince(), reconnectedBefore);
}

function sayResult(result: Result): void {
  const { name, calls, failures, seconds, problem } = result;
  say(
    `${hasFailed(result) ? "FAILED" : "ok    "} ${name}: ${failures.length} of ${calls} calls, ${seconds.toFixed(0)} s`,
  );
  for (const line of failureSummary(result).slice(0, 10)) say(`         ${line}`);
  if (problem !== undefined) say(`         ${problem}`);
}

async function main(args: readonly string[]): Promise<void> {
  const settings = settingsOf(args);
  const { make, way, rate, logins } = settings;
  const context =
    make === undefined ? chooseContext(await contexts(), settings.context) : await makeCluster(make);
  const kubectl = createKubectl(context);
  await assertReachable(kubectl);
  const wasInstalled = await isInstalled(kubectl);
  const all = disturbances(kubectl, settings);
  const chosen = settings.only.map((word) => {
    const some = all[word];
    if (some === undefined)
      throw new TrialRefused(`--only takes ${Object.keys(all).join(", ")}; not ${word}`);
    return some;
  });
  for (const image of [IMAGE, settings.otherImage]) if (image !== undefined) await loadImage(context, image);
  if (!wasInstalled) await install(kubectl, say);
  await applyTrial(kubectl, way);
  const image = await imageOf(kubectl);
  const load = await startLoad(kubectl, image, { rate, logins, ...WAYS[way], run: String(Date.now()) });
  say(`the load is on: ${rate} calls a second`);
  const results: Result[] = [];
  try {
    await load.linesSince();
    let reconnected = 0;
    const runs = chosen.flat().flatMap((disturbance) => new Array(settings.times).fill(disturbance));
    for (const disturbance of runs) {
      const result = await tried(disturbance, load, reconnected);
      reconnected += result.reconnected;
      results.push(result);
      sayResult(result);
    }
  } finally {
    await load.stop();
    const report = `${new Date().toISOString()}, ${rate} calls a second\n\n${table(results)}\n`;
    process.stdout.write(report);
    if (settings.output !== undefined) writeFileSync(settings.output, report);
  }
  if (results.some(hasFailed)) process.exitCode = 1;
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  const isUsage =
    error instanceof TrialRefused || (error as { code?: string }).code?.startsWith("ERR_PARSE_ARGS");
  if (!isUsage && !(error instanceof KubectlFailed)) throw error;
  say(error instanceof Error ? error.message : String(error));
  process.exitCode = isUsage ? EXIT_USAGE : 1;
}
