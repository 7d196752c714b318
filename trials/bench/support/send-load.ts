import { execFile, spawnSync } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { z } from "zod";

const run = promisify(execFile);
const CONNECTIONS = 32;
/** For what still waits at the end of a load. */
const GRACE_MS = 30_000;

const hasWrk = spawnSync("wrk", ["--version"]).error === undefined;

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
  const [program, args] = hasWrk
    ? [
        "wrk",
        [
          "-t1",
          `-c${CONNECTIONS}`,
          `-d${seconds}s`,
          "--timeout",
          "10s",
          "-s",
          join(here, "requests.lua"),
          url,
          "--",
          file,
        ],
      ]
    : [process.execPath, [join(here, "load.ts"), "send", url, file, `${seconds}`, `${CONNECTIONS}`]];
  const { stdout } = await run(program as string, args as string[], { timeout: seconds * 1_000 + GRACE_MS });
  const { bad, ...result } = resultSchema.parse(JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? ""));
  if (bad > 0) throw new Error(`${bad} of ${result.requests} calls to ${url} failed`);
  return result;
}
