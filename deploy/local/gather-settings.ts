import { resolve } from "node:path";
import { nearestNames } from "#kit/values/nearest-names.ts";
import type { Home } from "./home.ts";
import { LaunchError } from "./launch-error.ts";
import { readIfPresent } from "./private-file.ts";
import {
  type Assignment,
  parseAssignment,
  parseSettings,
  readServiceSettings,
  resolvedValue,
} from "./service-settings.ts";
import { readSettings, type Settings, settingsSchema } from "./settings.ts";

export interface SettingsSources {
  environment: NodeJS.ProcessEnv;
  /** Values of `--set`. */
  sets: readonly string[];
  /** Of relative paths in `sets`. */
  folder: string;
  /** Shipped with the repository. */
  root: string;
}

const KNOWN = Object.keys(settingsSchema.shape).filter((name) => name !== "GATEHOUSE_HOME");

/**
 * `--set` is stronger than the environment, and the environment than `<home>/npm-start.env`. What is set for one service
 * is stronger than what `npm start` sets for all.
 * @throws {LaunchError} 64 for a `--set` of another form, 78 with every other problem.
 */
export async function gatherSettings(home: Home, sources: SettingsSources): Promise<Settings> {
  const { environment, sets, folder, root } = sources;
  const assignments = sets.map(assignmentOf);
  const file = parseSettings((await readIfPresent(home.settingsFile)) ?? "");
  const own = assignments.filter(({ service }) => service === undefined);
  const ofServices = assignments.filter(({ service }) => service !== undefined);
  const { services, problems } = await readServiceSettings(home, ofServices, folder);
  problems.unshift(
    ...file.problems.map((problem) => `${home.settingsFile}: ${problem}`),
    ...Object.keys(file.values).flatMap((name) => unknownName(name, home.settingsFile)),
    ...own.flatMap(({ name }) => unknownName(name, "--set")),
  );
  const fromFile = Object.entries(file.values).map(([name, value]) => [
    name,
    resolvedValue(name, value, home.path),
  ]);
  const fromSets = own.map(({ name, value }) => [name, resolvedValue(name, value, folder)]);
  const present = Object.entries(environment).filter(([, value]) => value !== "");
  const given = Object.fromEntries([...fromFile, ...present, ...fromSets]) as NodeJS.ProcessEnv;
  return readSettings({ ...given, GATEHOUSE_HOME: home.path }, root, { services, problems });
}

/** Where the home is can only come from the environment, because the other sources are in it. */
export function homePath(environment: NodeJS.ProcessEnv, root: string): string {
  return resolve(environment.GATEHOUSE_HOME || resolve(root, ".gatehouse"));
}

function assignmentOf(text: string): Assignment {
  const assignment = parseAssignment(text);
  if (assignment !== undefined) return assignment;
  throw new LaunchError("--set takes <service>.<NAME>=<value>, or <NAME>=<value> for npm start itself.", {
    exitCode: 64,
  });
}

function unknownName(name: string, where: string): string[] {
  if (KNOWN.includes(name)) return [];
  const [nearest] = nearestNames(name, KNOWN);
  const hint = nearest === undefined ? "" : `: did you mean ${nearest}?`;
  const isHome = name === "GATEHOUSE_HOME";
  return [
    isHome
      ? `${where}: set GATEHOUSE_HOME in the environment`
      : `${where}: npm start reads no ${name}${hint}`,
  ];
}
