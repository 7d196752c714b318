import { request } from "undici";
import { z } from "zod";
import { BUILD } from "#kit/process/operations-server.ts";
import type { Backend } from "../backend.ts";
import { CliError } from "../cli-error.ts";
import { OPERATIONS, type OperationsAddress } from "../operations-addresses.ts";
import { clockFinding, offsetOf } from "./clocks.ts";
import { type Area, checking, type Finding, failed, ok, reasonOf, unchecked, warning } from "./finding.ts";
import { type Place, resolvePlaces } from "./places.ts";

const TIMEOUT_MS = 8_000;
const MAX_CHARACTERS = 500;
/** `Date` has whole seconds (RFC 9110 §6.6.1). */
const DATE_RESOLUTION_MS = 1_000;
const buildSchema = z.object({ version: z.string(), revision: z.string(), node: z.string() });
type Build = z.infer<typeof buildSchema>;

const ABOUT_PROCESSES: readonly Area[] = ["version", "clock"];

/** Who answers there, whether it is ready, its version and its clock. */
export async function checkOperationsPorts(backend: Backend, now: () => number): Promise<readonly Finding[]> {
  let addresses: OperationsAddress[];
  try {
    addresses = backend.operationsAddresses();
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    return ["port" as const, ...ABOUT_PROCESSES].map((area) =>
      unchecked(area, "all processes", error.message),
    );
  }
  const known = new Set(addresses.map(({ process }) => process));
  const unnamed = Object.entries(OPERATIONS).filter(([process]) => !known.has(process));
  const builds: { place: string; build: Build }[] = [];
  const asked = await Promise.all(
    addresses.map((target) => checking("port", target.process, () => checkTarget(target, now, builds))),
  );
  return [
    ...unnamed.map(([process, { address }]) => unchecked("port", process, `${address} is not set`)),
    ...asked.flat(),
    ...compareVersions(builds),
  ];
}

async function checkTarget(
  target: OperationsAddress,
  now: () => number,
  builds: { place: string; build: Build }[],
): Promise<Finding[]> {
  const places = await resolvePlaces(target.address).catch((error: unknown) => reasonOf(error));
  if (typeof places === "string") return away(target, target.address, places);
  const found = await Promise.all(places.map((place) => checkPlace(target, place, now, builds)));
  return found.flat();
}

async function checkPlace(
  target: OperationsAddress,
  place: Place,
  now: () => number,
  builds: { place: string; build: Build }[],
): Promise<Finding[]> {
  const { process } = target;
  try {
    const sentMs = now();
    const { headers, body } = await get(place, "/version");
    const receivedMs = now();
    const metrics = (await get(place, "/metrics")).body;
    const [, name] = /\bservice="([^"]+)"/.exec(metrics) ?? [];
    if (name !== process) {
      const found = `${name ?? "something else"} answers at ${place.name}`;
      return [failed("port", process, found, `Correct the operations address of ${process}`)];
    }
    const build = buildSchema.parse(JSON.parse(body));
    builds.push({ place: process, build });
    const readMs = Date.parse(String(headers.date));
    const offset = offsetOf({ readMs, resolutionMs: DATE_RESOLUTION_MS, sentMs, receivedMs });
    return [
      await readiness(process, place),
      ok("version", process, `${build.version} (${build.revision}), Node.js ${build.node}`),
      clockFinding(process, "this machine", offset),
      ...databaseClock(process, metrics),
      ...refusedCallers(process, metrics),
    ];
  } catch (error) {
    return away(target, place.name, reasonOf(error));
  }
}

async function readiness(process: string, place: Place): Promise<Finding> {
  const { status, body } = await get(place, "/readyz");
  if (status === 200) return ok("port", process, `ready, says ${place.name}`);
  const reasons = body.slice(0, MAX_CHARACTERS).trim().replaceAll("\n", ", ");
  const action = "See what it waits for: docs/operations/runbooks/GatehouseNotReady.md";
  return failed("port", process, `not ready, says ${place.name}: ${reasons}`, action);
}

/** The process has compared them itself, without the way to us. */
function databaseClock(process: string, metrics: string): Finding[] {
  const [, value] = /^gatehouse_database_clock_skew_seconds\{[^}]*\} (\S+)$/m.exec(metrics) ?? [];
  if (value === undefined) return [];
  const aheadMs = -Number(value) * 1_000;
  if (Number.isNaN(aheadMs)) return [unchecked("clock", process, "it does not reach its database")];
  return [clockFinding(process, "its database", { leastMs: aheadMs, mostMs: aheadMs })];
}

/** Whom the list in a variable leaves out. Since the process started. */
function refusedCallers(process: string, metrics: string): Finding[] {
  const counters = metrics.matchAll(/^gatehouse_rpc_callers_refused_total\{([^}]*)\} /gm);
  return [...counters].flatMap(([, labels = ""]) => {
    const [caller, setting] = ["caller", "setting"].map(
      (name) => new RegExp(`\\b${name}="([a-zA-Z_0-9-]+)"`).exec(labels)?.[1],
    );
    if (caller === undefined || setting === undefined) return [];
    const action = `If it is yours, add its name to ${setting} of ${process}`;
    return [warning("permission", process, `it has refused ${caller}`, action)];
  });
}

function away({ process }: OperationsAddress, place: string, why: string): Finding[] {
  const action = `Start ${process}; its log says why it ended`;
  return [
    failed("port", process, `${place} cannot be reached (${why})`, action),
    ...ABOUT_PROCESSES.map((area) => unchecked(area, process, `${place} does not answer`)),
  ];
}

async function get({ host, port }: Place, path: string) {
  const place = host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const { statusCode, headers, body } = await request(`http://${place}${path}`, { signal });
  return { status: statusCode, headers, body: await body.text() };
}

/** Any two neighbouring versions work together, so that a rollout may take its time. */
function compareVersions(builds: readonly { place: string; build: Build }[]): Finding[] {
  if (builds.length === 0) return [unchecked("version", "all processes", "none answers")];
  const own = { place: "this program", build: BUILD };
  const byVersion = Map.groupBy([...builds, own], ({ build }) => `${build.version} (${build.revision})`);
  if (byVersion.size === 1) return [ok("version", "all processes", "the same, and this program's")];
  const reported = [...byVersion].map(
    ([version, each]) => `${version}: ${[...new Set(each.map(({ place }) => place))].join(", ")}`,
  );
  const action = "Finish the rollout, or go back: docs/operations/upgrade.md";
  return [warning("version", "all processes", `several: ${reported.join("; ")}`, action)];
}
