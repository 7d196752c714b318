import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { z } from "zod";
import { findProgram } from "../peers/peer.ts";

const run = promisify(execFile);
const CONNECTIONS = 32;
const WARM_UP_S = 5;
/** At a steady rate. */
const MAX_CONNECTIONS = 256;
/** For what still waits at the end of a load. */
const GRACE_MS = 30_000;

const WRK = findProgram("wrk");

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

/** As fast as it answers, over 32 connections, by one thread of another process. @throws if an answer is not a success. */
export async function sendLoad(
  url: string,
  file: string,
  seconds: number,
): Promise<{ requests: number; seconds: number }> {
  const here = import.meta.dirname;
  const options = ["-t1", `-c${CONNECTIONS}`, `-d${seconds}s`, "--timeout", "10s"];
  const [program, args] =
    WRK === undefined
      ? ([
          process.execPath,
          [join(here, "load.ts"), "send", url, file, `${seconds}`, `${CONNECTIONS}`],
        ] as const)
      : ([WRK, [...options, "-s", join(here, "requests.lua"), url, "--", file]] as const);
  const { stdout } = await run(program, args, { timeout: seconds * 1_000 + GRACE_MS });
  const { bad, ...result } = resultSchema.parse(JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? ""));
  if (bad > 0) throw new Error(`${bad} of ${result.requests} calls to ${url} failed`);
  return result;
}

/** At least so many calls, so that what is measured afterwards is compiled and remembers the tokens. */
export async function warmUp(url: string, file: string, calls: number): Promise<void> {
  for (let sent = 0; sent < calls; ) sent += (await sendLoad(url, file, WARM_UP_S)).requests;
}

const VEGETA = findProgram("vegeta");
/** For figures that need a steady rate; undefined if it can be sent. */
export const MISSING_RATE =
  VEGETA === undefined ? "vegeta is not installed: run trials/bench/peers/setup.sh vegeta" : undefined;

const reportSchema = z.object({
  latencies: z.object({ "50th": z.number(), "99th": z.number() }),
  success: z.number(),
  errors: z.array(z.string()).nullable(),
});

/**
 * At a steady rate, whether or not the calls before have been answered: a slow answer does not hold back the next call.
 * @returns milliseconds. @throws if an answer is not a success.
 */
export async function sendAtRate(
  url: string,
  file: string,
  { perSecond, seconds }: { perSecond: number; seconds: number },
) {
  if (VEGETA === undefined) throw new Error(MISSING_RATE);
  const lines = (await readFile(file, "utf8")).trimEnd().split("\n");
  const targets = lines.map((line) => {
    const [method, path = "", authorization = "", type = "", body = ""] = line.split("\t");
    const header = { Authorization: [authorization], ...(type !== "" && { "Content-Type": [type] }) };
    return JSON.stringify({
      method,
      url: `${url}${path}`,
      header,
      body: Buffer.from(body).toString("base64"),
    });
  });
  const [targetFile, resultFile] = [`${file}.vegeta`, `${file}.result`];
  await writeFile(targetFile, targets.join("\n"), { mode: 0o600 });
  const attack = [
    "attack",
    // Calls that wait for one are late, too.
    `-max-connections=${MAX_CONNECTIONS}`,
    "-format=json",
    `-targets=${targetFile}`,
    `-rate=${perSecond}/1s`,
    `-duration=${seconds}s`,
  ];
  await run(VEGETA, [...attack, `-output=${resultFile}`], { timeout: seconds * 1_000 + GRACE_MS });
  const { stdout } = await run(VEGETA, ["report", "-type=json", resultFile], { timeout: GRACE_MS });
  const { latencies, success, errors } = reportSchema.parse(JSON.parse(stdout));
  if (success < 1) {
    const share = ((1 - success) * 100).toFixed(1);
    throw new Error(`${share} % of the calls to ${url} at ${perSecond}/s failed: ${errors?.slice(0, 3)}`);
  }
  return { p50: latencies["50th"] / 1e6, p99: latencies["99th"] / 1e6 };
}
