import { readFileSync } from "node:fs";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { resolve } from "node:path";
import { z } from "zod";
import { LOG_LEVELS, splitAddress } from "../config/config.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { http } from "../values/http.ts";
import { isLoopback } from "../values/network-of.ts";
import type { Lifecycle } from "./lifecycle.ts";

export interface OperationsDeps {
  lifecycle: Pick<Lifecycle, "unreadyReasons">;
  metrics: Metrics;
  logger: Logger;
}

const MAX_CONNECTIONS = 64;

/** Only the same host can change the log level, as through a port forward. */
export async function startOperationsServer(address: string, deps: OperationsDeps): Promise<Server> {
  const logLevel = createLogLevelSwitch(deps.logger);
  const server = http.createServer({ headersTimeout: 3_000, requestTimeout: 5_000 }, (request, response) => {
    answer(request, response, deps, logLevel).catch(() => {
      if (!response.headersSent) send(response, 500, "internal error\n");
    });
  });
  server.maxConnections = MAX_CONNECTIONS;
  const { host, port } = splitAddress(address);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  return server;
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  { lifecycle, metrics }: OperationsDeps,
  logLevel: LogLevelSwitch,
): Promise<void> {
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://operations");
  if (pathname === "/log-level" && request.method === "PUT") {
    if (!isLoopback(request.socket.remoteAddress)) return send(response, 403, "only from this host\n");
    const answered = logLevel.set(searchParams.get("level"), searchParams.get("minutes"));
    return send(response, answered.isChanged ? 200 : 400, `${answered.message}\n`);
  }
  if (request.method !== "GET" && request.method !== "HEAD") {
    response.setHeader("allow", pathname === "/log-level" ? "GET, HEAD, PUT" : "GET, HEAD");
    return send(response, 405, "method not allowed\n");
  }
  if (pathname === "/log-level") return send(response, 200, `${logLevel.describe()}\n`);
  if (pathname === "/healthz") return send(response, 200, "ok\n");
  if (pathname === "/version") return send(response, 200, `${JSON.stringify(BUILD)}\n`, "application/json");
  if (pathname === "/readyz") {
    const reasons = await lifecycle.unreadyReasons();
    return reasons.length === 0
      ? send(response, 200, "ready\n")
      : send(response, 503, `${reasons.join("\n")}\n`);
  }
  if (pathname === "/metrics")
    return send(response, 200, await metrics.render(), "text/plain; version=0.0.4");
  send(response, 404, "not found\n");
}

function send(response: ServerResponse, status: number, text: string, type = "text/plain"): void {
  response.writeHead(status, { "content-type": type, "cache-control": "no-store" }).end(text);
}

const DEFAULT_MINUTES = 15;
const MAX_MINUTES = 24 * 60;

interface LogLevelSwitch {
  /** @param minutes 1 to 1,440, by default 15. */
  set(level: string | null, minutes: string | null): { isChanged: boolean; message: string };
  /** `info`, or `debug until 2026-11-21T09:30:00.000Z, then info`. */
  describe(): string;
}

export function createLogLevelSwitch(logger: Pick<Logger, "level" | "info">): LogLevelSwitch {
  const configured = logger.level;
  let back: { timer: NodeJS.Timeout; at: Date } | undefined;

  function reset(): void {
    clearTimeout(back?.timer);
    back = undefined;
    logger.level = configured;
  }

  function describe(): string {
    return back === undefined
      ? logger.level
      : `${logger.level} until ${back.at.toISOString()}, then ${configured}`;
  }

  return {
    describe,
    set(level, minutes) {
      const count = minutes === null ? DEFAULT_MINUTES : Number(minutes);
      if (level === null || !(LOG_LEVELS as readonly string[]).includes(level)) {
        return { isChanged: false, message: `level must be one of ${LOG_LEVELS.join(", ")}` };
      }
      if (!Number.isInteger(count) || count < 1 || count > MAX_MINUTES) {
        return { isChanged: false, message: `minutes must be a whole number from 1 to ${MAX_MINUTES}` };
      }
      reset();
      if (level !== configured) {
        const ms = count * 60_000;
        back = { timer: setTimeout(reset, ms).unref(), at: new Date(Date.now() + ms) };
      }
      logger.info({ logLevel: level, configured }, "log level changed");
      logger.level = level;
      return { isChanged: true, message: describe() };
    },
  };
}

const read = (name: string) => readFileSync(resolve(import.meta.dirname, "..", "..", "..", name), "utf8");
const { version } = z.object({ version: z.string() }).parse(JSON.parse(read("package.json")));

/** What is running. The image's build writes `REVISION`, the commit. */
export const BUILD = { version, revision: revision(), node: process.versions.node };

function revision(): string {
  try {
    return read("REVISION").trim();
  } catch {
    return "unknown";
  }
}
