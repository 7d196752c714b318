import { availableParallelism } from "node:os";
import * as argon2 from "@node-rs/argon2";
import { v7 as uuidv7 } from "uuid";
import { IdentityServiceService } from "../proto/gen/gatehouse/identity/v1/identity_service.ts";
import { SessionServiceClient } from "../proto/gen/gatehouse/token/v1/session_service.ts";
import { loadConfig } from "../service-kit/config.ts";
import { connectPostgres } from "../service-kit/postgres.ts";
import { untilSuccess } from "../service-kit/repeat.ts";
import { createRpcClient } from "../service-kit/rpc-client.ts";
import { serveRpc, startProcess } from "../service-kit/service-process.ts";
import { bootstrapAdmin } from "./bootstrap-admin.ts";
import { commonPasswords } from "./common-passwords.ts";
import { configSchema, hashConcurrency } from "./config.ts";
import { createHashQueue } from "./hash-queue.ts";
import { createIdentityRpc, IDENTITY_CALLERS } from "./identity-rpc.ts";
import { createMailSender } from "./mail-sender.ts";
import { MailWorker } from "./mail-worker.ts";
import { createPasswordHasher } from "./password-hasher.ts";
import { createTokenServiceClient } from "./token-service-client.ts";
import { readUsersTable } from "./user-store.ts";

const config = loadConfig(configSchema, process.env);
const service = await startProcess("identity-service", config);
const { logger, metrics, lifecycle, certificate } = service;
const now = () => new Date();

const sql = connectPostgres(config, "identity-service", logger);
lifecycle.onStop("database", () => sql.end({ timeout: 1 }));
lifecycle.addReadinessCheck("database", () => readUsersTable(sql));

const sessions = createRpcClient(SessionServiceClient, {
  address: config.TOKEN_SERVICE_ADDRESS,
  service: "token-service",
  certificate,
});
lifecycle.onStop("token-service client", () => sessions.close());

const passwords = await createPasswordHasher({
  argon2,
  parameters: {
    memoryKib: config.ARGON2_MEMORY_KIB,
    iterations: config.ARGON2_ITERATIONS,
    parallelism: config.ARGON2_PARALLELISM,
  },
  queue: createHashQueue({
    concurrency: hashConcurrency(config, availableParallelism()),
    maxWaiting: config.HASH_QUEUE_MAX,
    maxWaitMs: config.HASH_QUEUE_WAIT_MS,
    now: Date.now,
    metrics,
  }),
  logger,
});

const { SMTP_URL: smtpServer, MAIL_FROM: mailFrom } = config;
const mailSender =
  smtpServer &&
  mailFrom &&
  createMailSender({
    server: smtpServer,
    password: config.SMTP_PASSWORD_FILE,
    requireTls: config.SMTP_REQUIRE_TLS,
    caFile: config.SMTP_CA_FILE,
    from: mailFrom,
  });
if (mailSender === undefined) logger.warn("SMTP_URL is not set: no mail is sent, mails wait in the outbox");
else lifecycle.onStop("mail sender", () => mailSender.close());

const mailWorker = new MailWorker({
  sql,
  templates: config.MAIL_TEMPLATES_DIR,
  sender: mailSender,
  now,
  random: Math.random,
  logger,
  metrics,
});
mailWorker.start();
lifecycle.onStop("mail worker", () => mailWorker.stop());

const deps = {
  sql,
  passwords,
  passwordPolicy: {
    minLength: config.PASSWORD_MIN_LENGTH,
    common: commonPasswords(config.PASSWORD_MIN_LENGTH),
  },
  tokenService: createTokenServiceClient(sessions),
  now,
  newId: () => uuidv7(),
  wakeMailWorker: () => mailWorker.wake(),
  logger,
};

await serveRpc(service, config, (server) =>
  server.add(IdentityServiceService, IDENTITY_CALLERS, createIdentityRpc(deps)),
);

const { BOOTSTRAP_ADMIN_EMAIL: email, BOOTSTRAP_ADMIN_PASSWORD_FILE: password } = config;
if (email !== undefined && password !== undefined) {
  await untilSuccess("first administrator", () => bootstrapAdmin(deps, { email, password }), logger);
}
lifecycle.ready();
