import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { z } from "zod";
import { findPeer } from "../peers/peer.ts";

const run = promisify(execFile);
const CONNECTIONS = 32;
const WARM_UP_S = 5;
const RATE_CONNECTIONS = 128;
/** The answer, and how late a timer of wrk is. */
const BESIDE_PAUSE_MS = 2;
/** For what still waits at the end of a load. */
const GRACE_MS = 30_000;

const WRK = findPeer("wrk");

/** What a load sends in turn. */
export interface LoadRequest {
  method: "GET" | "POST";
  path: string;
  authorization: string;
  type?: string;
  body?: string;
}

const resultSchema = z.object({ requests: z.int(), bad: z.int(), seconds: z.number() });

/** @returns the file's path. */
export async function writeRequests(
  folder: string,
  name: string,
  requests: readonly LoadRequest[],
): Promise<string> {
  const file = join(folder, `${name}.requests`);
  const lines = requests.map(({ method, path, authorization, type = "", body = "" }) =>
    [method, path, authorization, type, body].join("\t"),
  );
  await writeFile(file, `${lines.join("\n")}\n`, { mode: 0o600 });
  return file;
}

/** As fast as it answers, over 32 connections, by one thread of another process. @param sent by a load before it. @throws if an answer is not a success. */
export async function sendLoad(
  url: string,
  file: string,
  seconds: number,
  sent = 0,
): Promise<{ requests: number; seconds: number }> {
  const here = import.meta.dirname;
  const options = ["-t1", `-c${CONNECTIONS}`, `-d${seconds}s`, "--timeout", "10s"];
  const [program, args] =
    WRK === undefined
      ? ([
          process.execPath,
          [join(here, "load.ts"), "send", url, file, `${seconds}`, `${CONNECTIONS}`, `${sent}`],
        ] as const)
      : ([WRK, [...options, "-s", join(here, "requests.lua"), url, "--", file, `${sent}`]] as const);
  const { stdout } = await run(program, args, { timeout: seconds * 1_000 + GRACE_MS });
  const { bad, ...result } = resultSchema.parse(JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? ""));
  if (bad > 0) throw new Error(`${bad} of ${result.requests} calls to ${url} failed`);
  return result;
}

/** At least so many calls, so that what is measured afterwards is compiled and remembers the tokens. */
export async function warmUp(url: string, file: string, calls: number): Promise<void> {
  for (let sent = 0; sent < calls; ) sent += (await sendLoad(url, file, WARM_UP_S, sent)).requests;
}

/** For figures that need a steady rate; undefined if it can be sent. */
export const MISSING_RATE =
  WRK === undefined ? "wrk is not installed: run trials/bench/peers/setup.sh wrk" : undefined;

const timesSchema = resultSchema.extend({ p50: z.number(), p99: z.number() });

/**
 * At a steady rate, over so many connections that one which waits for an answer holds back few calls; wrk counts those that it
 * would have sent meanwhile as late, too (coordinated omission).
 * @returns milliseconds. @throws if an answer is not a success.
 */
export async function sendAtRate(
  url: string,
  file: string,
  { perSecond, seconds }: { perSecond: number; seconds: number },
) {
  if (WRK === undefined) throw new Error(MISSING_RATE);
  const pauseMs = (RATE_CONNECTIONS / perSecond) * 1_000 - BESIDE_PAUSE_MS;
  const options = ["-t1", `-c${RATE_CONNECTIONS}`, `-d${seconds}s`, "--timeout", "10s"];
  const script = ["-s", join(import.meta.dirname, "requests.lua")];
  const { stdout } = await run(WRK, [...options, ...script, url, "--", file, "0", `${pauseMs}`], {
    timeout: seconds * 1_000 + GRACE_MS,
  });
  const result = timesSchema.parse(JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? ""));
  const { bad, requests, p50, p99 } = result;
  if (bad > 0) throw new Error(`${bad} of ${requests} calls to ${url} at ${perSecond}/s failed`);
  return { p50, p99, perSecond: requests / result.seconds };
}
