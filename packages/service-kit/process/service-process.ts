import { type Sql, warmUp } from "../database/postgres.ts";
import { addReflection } from "../rpc/reflection.ts";
import { type PeopleFile, watchRefusedPeople } from "../rpc/refused-people.ts";
import { RpcServer, type RpcServerOptions } from "../rpc/rpc-server.ts";
import { ProcessCertificate, tlsFilesOf } from "../rpc/rpc-tls.ts";
import { createLogger, type DestinationStream, type Logger } from "../telemetry/logger.ts";
import { createMetrics, type Metrics } from "../telemetry/metrics.ts";
import { untilSuccess } from "../telemetry/repeat.ts";
import { startTraceExport, type TraceExportConfig, type TraceOrigin } from "../telemetry/trace-export.ts";
import { BUILD } from "./build.ts";
import { startHealthServer } from "./health-server.ts";
import { Lifecycle } from "./lifecycle.ts";
import { startOperationsServer } from "./operations-server.ts";

export interface ServiceProcess {
  logger: Logger;
  metrics: Metrics;
  lifecycle: Lifecycle;
  certificate: ProcessCertificate;
}

interface ProcessConfig extends TraceExportConfig {
  LOG_LEVEL: string;
  OPERATIONS_ADDRESS: string;
  SHUTDOWN_GRACE_MS: number;
  DRAIN_DELAY_MS: number;
  TLS_CERT_FILE: string;
  TLS_KEY_FILE: string;
  TLS_CA_FILE: string;
}

const STOP_MARGIN_MS = 3_000;

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
  return { logger, metrics, lifecycle, certificate };
}

interface ServeOptions
  extends Pick<RpcServerOptions, "actorsTakeTurns" | "turnFields" | "maxReceiveBytes" | "assertClock"> {
  /** That calls wait for. */
  databases: readonly Sql[];
  register: (server: RpcServer) => void;
}

/** Returns when the connections that the first calls need are open. */
export async function serveRpc(
  service: ServiceProcess,
  config: {
    LISTEN_ADDRESS: string;
    HEALTH_ADDRESS: string;
    SHUTDOWN_GRACE_MS: number;
    REFUSED_PEOPLE_FILE?: PeopleFile | undefined;
    GRPC_REFLECTION: boolean;
  },
  { databases, register, ...options }: ServeOptions,
): Promise<void> {
  const { lifecycle, logger, metrics, certificate } = service;
  const refusedPeople = watchRefusedPeople(config.REFUSED_PEOPLE_FILE, { logger, metrics });
  lifecycle.onStop("refused people", () => refusedPeople.watch?.stop());
  const server = new RpcServer({
    address: config.LISTEN_ADDRESS,
    certificate,
    logger,
    metrics,
    refusedPeople,
    ...options,
  });
  register(server);
  if (config.GRPC_REFLECTION) addReflection(server);
  const port = await server.listen();
  const follow = followReadiness(server, logger);
  const health = await startHealthServer(config.HEALTH_ADDRESS, lifecycle, follow);
  lifecycle.onStop("health port", () => health.stop());
  lifecycle.onStop("gRPC server", () => server.close(config.SHUTDOWN_GRACE_MS));
  logger.info({ port }, "serving gRPC");
  const open = () => Promise.all(databases.map(warmUp));
  await untilSuccess("database connections", open, logger);
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
