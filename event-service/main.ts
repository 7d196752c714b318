import { createAuditRecorder } from "#audit-client/record/audit-recorder.ts";
import { createReadingRecorder } from "#audit-client/stream/record-reading.ts";
import { loadConfig } from "#kit/config/config.ts";
import { connectPostgres } from "#kit/database/postgres.ts";
import { startProcess } from "#kit/process/service-process.ts";
import { watchDatabase } from "#kit/process/watch-database.ts";
import { untilSuccess } from "#kit/telemetry/repeat.ts";
import { SignalServiceService } from "#proto/gatehouse/events/v1/signal_service.ts";
import { WebhookServiceService } from "#proto/gatehouse/events/v1/webhook_service.ts";
import { configSchema } from "./config.ts";
import { Couriers, HEARTBEAT_MS, measureDeliveries } from "./delivery/couriers.ts";
import { createIdentityClient } from "./delivery/identity-client.ts";
import { createSignalSigner } from "./delivery/signal-signer-client.ts";
import { tellPauses } from "./delivery/tell-pauses.ts";
import { renewEncryptions } from "./manage/manage-endpoints.ts";
import { pauseForbiddenStreams } from "./manage/manage-streams.ts";
import { configuredCollectors } from "./open-collectors.ts";
import { Collectors } from "./siem/collectors.ts";
import { EntryReader } from "./siem/entry-reader.ts";
import { createSignalRpc, SIGNAL_CALLERS } from "./signal-rpc.ts";
import { createAuditLogClient } from "./stream/audit-log-client.ts";
import { EventSource } from "./stream/event-source.ts";
import { createWebhookRpc, WEBHOOK_CALLERS } from "./webhook-rpc.ts";

/** From the numbering of an entry to its delivery, it is most of the time. */
const READ_INTERVAL_MS = 150;
const AUDIT_GRACE_MS = 1_000;
const RECEIVER_CHECK_MS = 5_000;
const RENEW_INTERVAL_MS = 60_000;
/** A poll may settle 2,000 tokens. */
const MAX_RECEIVE_BYTES = 128 * 1024;

const config = loadConfig(configSchema, process.env);
const service = await startProcess("event-service", config);
const { lifecycle, logger, metrics } = service;
const now = () => new Date();

const sql = connectPostgres(config, "event-service", logger);
lifecycle.onStop("database", () => sql.end({ timeout: 2 }));
const database = watchDatabase({ sql, poolSize: config.DATABASE_POOL_SIZE, metrics, lifecycle, logger });
const recorder = createAuditRecorder({
  address: config.AUDIT_SERVICE_ADDRESS,
  certificate: service.certificate,
  logger,
  metrics,
});
lifecycle.onStop("audit recorder", () => recorder.close(AUDIT_GRACE_MS));
const auditLog = service.run(
  "audit log",
  createAuditLogClient(config.AUDIT_SERVICE_ADDRESS, service.certificate),
);

const identity = service.run(
  "identity-service",
  createIdentityClient(config.IDENTITY_SERVICE_ADDRESS, service.certificate),
);

const signer = service.run(
  "signatures of signals",
  createSignalSigner(config.TOKEN_SERVICE_ADDRESS, service.certificate),
);

const events = new EventSource({ follow: auditLog.follow, source: config.PUBLIC_ORIGIN, logger });
let readAtMs = performance.now();
const previousKey = config.WEBHOOK_ENCRYPTION_KEY_PREVIOUS_FILE;
const deps = {
  sql,
  events,
  keys: [config.WEBHOOK_ENCRYPTION_KEY_FILE, ...(previousKey ? [previousKey] : [])] as const,
  networks: config.WEBHOOK_NETWORKS,
  sign: signer.sign,
  filterReceivers: identity.filterReceivers,
  source: config.PUBLIC_ORIGIN,
  now,
};
const couriers = new Couriers({
  ...deps,
  metrics: measureDeliveries(metrics, now),
  assertClock: database.assertClock,
  monotonicMs: () => performance.now(),
  random: Math.random,
  logger,
});
metrics.gauge(
  "gatehouse_event_stream_lag_seconds",
  "Since this replica last read the audit log to its end, or last took its share of the webhooks, if that is longer.",
  [],
  (gauge) => gauge.set(Math.max((performance.now() - readAtMs) / 1_000, couriers.lagS)),
);
metrics.gauge("gatehouse_webhooks_served", "Webhooks that this replica delivers to.", [], (gauge) =>
  gauge.set(couriers.count),
);
const reader = new EntryReader({ readLog: auditLog.readLog, events, logger });
const collectors = new Collectors({
  ...{ sql, reader, now, random: Math.random, logger },
  open: configuredCollectors(config, { reader, now, sql, exportLog: auditLog.exportLog }),
});
metrics.gauge(
  "gatehouse_siem_lag_entries",
  "Entries of the audit log that a collector of the SIEM does not have yet.",
  ["collector"],
  (gauge) => {
    gauge.reset();
    for (const { collector, entries } of collectors.lags) gauge.set({ collector }, entries);
  },
);
metrics.gauge(
  "gatehouse_siem_since_success_seconds",
  "Since a collector of the SIEM last took entries, or there were none that can be read.",
  ["collector"],
  (gauge) => {
    gauge.reset();
    for (const { collector, seconds } of collectors.lags) gauge.set({ collector }, seconds);
  },
);

await service.serveRpc(config, {
  databases: [sql],
  maxReceiveBytes: MAX_RECEIVE_BYTES,
  register: (server) => {
    const record = createReadingRecorder(recorder, now);
    server.add(WebhookServiceService, WEBHOOK_CALLERS, createWebhookRpc(deps, record));
    server.add(SignalServiceService, SIGNAL_CALLERS, createSignalRpc({ ...deps, waitingPolls: new Map() }));
  },
});
await untilSuccess("audit log", beginReading, logger);
service.every(READ_INTERVAL_MS, "audit log", readLog);
service.run("webhooks", couriers);
service.every(RENEW_INTERVAL_MS, "encryption of secrets", () => renewEncryptions(deps), { atOnce: true });
service.every(HEARTBEAT_MS, "webhooks", () => couriers.beat(), { atOnce: true });
service.every(RECEIVER_CHECK_MS, "rights of receivers", () => pauseForbiddenStreams(deps));
service.every(HEARTBEAT_MS, "pauses of webhooks", () =>
  tellPauses({ sql, recorder, notifyOwner: identity.notifyOwner }),
);
service.run("collectors of the SIEM", collectors);
service.every(HEARTBEAT_MS, "collectors of the SIEM", () => collectors.beat(), { atOnce: true });
lifecycle.ready();

/** While one of several logs is away, the events of the others are sent. */
async function beginReading(): Promise<void> {
  await readLog().catch((error: unknown) => {
    if (Object.keys(events.tip).length === 0) throw error;
  });
}

async function readLog(): Promise<void> {
  await events.read();
  readAtMs = performance.now();
}
