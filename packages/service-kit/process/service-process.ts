import { flushCompileCache } from "node:module";
import { ConfigError, type ProcessConfig, type ServiceConfig } from "../config/config.ts";
import { assertSessions, type Sql, warmUp } from "../database/postgres.ts";
import { addReflection } from "../rpc/reflection.ts";
import { type PeopleFile, watchRefusedPeople } from "../rpc/refused-people.ts";
import { RpcServer, type RpcServerOptions } from "../rpc/rpc-server.ts";
import { ProcessCertificate, tlsFilesOf } from "../rpc/rpc-tls.ts";
import { createLogger, type DestinationStream, type Logger } from "../telemetry/logger.ts";
import { createMetrics, type Metrics } from "../telemetry/metrics.ts";
import { type Repetition, repeat, untilSuccess } from "../telemetry/repeat.ts";
import { startTraceExport, type TraceOrigin } from "../telemetry/trace-export.ts";
import { Lifecycle } from "./lifecycle.ts";
import { BUILD, startOperationsServer } from "./operations-server.ts";

interface RpcConfig
  extends Pick<ServiceConfig, "LISTEN_ADDRESS" | "HEALTH_ADDRESS" | "SHUTDOWN_GRACE_MS" | "GRPC_REFLECTION"> {
  REFUSED_PEOPLE_FILE?: PeopleFile | undefined;
}

interface RpcServices
  extends Pick<
    RpcServerOptions,
    "actorsTakeTurns" | "turnFields" | "maxReceiveBytes" | "assertClock" | "callerSettings"
  > {
  /** That calls wait for. */
  databases: readonly Sql[];
  register: (server: RpcServer) => void;
}

/** Something that lives as long as the process. */
interface Part {
  start?: () => void;
  stop?: () => Promise<void> | void;
  close?: () => Promise<void> | void;
}

const STOP_MARGIN_MS = 3_000;

/** What every process has. Parts stop in the reverse order of their start. */
export class ServiceProcess {
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly lifecycle: Lifecycle;
  readonly certificate: ProcessCertificate;

  constructor(parts: Pick<ServiceProcess, "logger" | "metrics" | "lifecycle" | "certificate">) {
    this.logger = parts.logger;
    this.metrics = parts.metrics;
    this.lifecycle = parts.lifecycle;
    this.certificate = parts.certificate;
  }

  /** Starts the part, where it has a start, and stops or closes it with the process. */
  run<P extends Part>(name: string, part: P): P {
    part.start?.();
    this.lifecycle.onStop(name, () => (part.stop ?? part.close)?.call(part));
    return part;
  }

  /** Repeats a task as `repeat` does. @param options.atOnce for the first time without waiting. */
  every(
    intervalMs: number,
    name: string,
    task: () => Promise<void>,
    options: { atOnce?: boolean } = {},
  ): Repetition {
    const repetition = this.run(name, repeat(name, intervalMs, task, this.logger));
    if (options.atOnce) repetition.runSoon();
    return repetition;
  }

  /** Returns when the connections that the first calls need are open. @throws {ConfigError} as `assertSessions` does. */
  async serveRpc(config: RpcConfig, { databases, register, ...options }: RpcServices): Promise<void> {
    const { certificate, lifecycle, logger, metrics } = this;
    const refusedPeople = watchRefusedPeople(config.REFUSED_PEOPLE_FILE, { logger, metrics });
    lifecycle.onStop("refused people", () => refusedPeople.watch?.stop());
    const address = config.LISTEN_ADDRESS;
    const server = new RpcServer({ address, certificate, logger, metrics, refusedPeople, ...options });
    register(server);
    if (config.GRPC_REFLECTION) addReflection(server);
    const port = await server.listen();
    const follow = followReadiness(server, logger);
    // Its library is not for processes without gRPC.
    const { startHealthServer } = await import("./health-server.ts");
    this.run("health port", await startHealthServer(config.HEALTH_ADDRESS, lifecycle, follow));
    lifecycle.onStop("gRPC server", () => server.close(config.SHUTDOWN_GRACE_MS));
    logger.info({ port }, "serving gRPC");
    const refusal = await untilSuccess("database connections", () => openDatabases(databases), logger);
    if (refusal !== undefined) throw refusal;
  }
}

/** Returns what no further attempt can mend. */
async function openDatabases(databases: readonly Sql[]): Promise<ConfigError | undefined> {
  try {
    // Pools of one database need it once.
    const byUrl = new Map(databases.map((sql) => [sql.pool.options.url, sql]));
    await Promise.all([...byUrl.values()].map(assertSessions));
    await Promise.all(databases.map(warmUp));
    return undefined;
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
}

/** @param options.logOutput defaults to standard output. */
export async function startProcess(
  name: string,
  config: ProcessConfig,
  options: { traceOrigin?: TraceOrigin; logOutput?: DestinationStream } = {},
): Promise<ServiceProcess> {
  const logger = createLogger(name, config.LOG_LEVEL, options.logOutput);
  const lifecycle = new Lifecycle({
    logger,
    drainDelayMs: config.DRAIN_DELAY_MS,
    shutdownTimeoutMs: config.SHUTDOWN_GRACE_MS + STOP_MARGIN_MS,
  });
  const metrics = createMetrics(name, { ofProcess: true });
  describeBuild(metrics);
  metrics.gauge("gatehouse_ready", "1 for each part that is ready, else 0.", ["part"], async (gauge) => {
    for (const [part, isReady] of await lifecycle.readiness()) gauge.set({ part }, Number(isReady));
  });
  const certificate = new ProcessCertificate(tlsFilesOf(config), (error) =>
    logger.error({ err: error }, "certificate files cannot be used; the last good ones stay"),
  );
  metrics.gauge("gatehouse_certificate_end_seconds", "When the process's certificate expires.", [], (gauge) =>
    gauge.set(certificate.endS),
  );
  lifecycle.onStop("certificate", () => certificate.close());
  const endTraceExport = await startTraceExport(name, options.traceOrigin ?? "inside", config, logger);
  if (endTraceExport !== undefined) lifecycle.onStop("trace export", endTraceExport);
  const operations = await startOperationsServer(config.OPERATIONS_ADDRESS, { lifecycle, metrics, logger });
  lifecycle.onStop("operations port", () => {
    operations.closeAllConnections();
    operations.close();
  });
  flushCompileCache(); // For processes that start after this one.
  return new ServiceProcess({ logger, metrics, lifecycle, certificate });
}

/** Short interruptions do not justify moving clients. */
const UNREADY_AFTER_MS = 2_000;

/** gRPC clients choose replicas by connection. */
export function followReadiness(
  server: Pick<RpcServer, "setServing">,
  logger: Logger,
  nowMs: () => number = () => performance.now(),
): (reasons: string[]) => void {
  let unreadySinceMs: number | undefined;
  let isServing = true;
  return (reasons) => {
    const isUnready = reasons.length > 0 && !reasons.includes("starting") && !reasons.includes("draining");
    unreadySinceMs = isUnready ? (unreadySinceMs ?? nowMs()) : undefined;
    const shouldServe = unreadySinceMs === undefined || nowMs() - unreadySinceMs < UNREADY_AFTER_MS;
    if (shouldServe !== isServing)
      logger.warn({ reasons }, shouldServe ? "accepts calls again" : "refuses calls");
    isServing = shouldServe;
    server
      .setServing(shouldServe)
      .catch((error: unknown) => logger.error({ err: error }, "cannot accept calls again"));
  };
}

function describeBuild(metrics: Metrics): void {
  metrics
    .gauge("gatehouse_build_info", "Always 1, with the running versions as labels.", ["version", "node"])
    .set({ version: BUILD.version, node: BUILD.node }, 1);
}
