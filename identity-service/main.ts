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
import { createPasswordHasher } from "./password-hasher.ts";
import { createTokenServiceClient } from "./token-service-client.ts";
import { readUsersTable } from "./user-store.ts";

const config = loadConfig(configSchema, process.env);
const service = await startProcess("identity-service", config);
const { logger, metrics, lifecycle, certificate } = service;

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

const deps = {
  sql,
  passwords,
  passwordPolicy: {
    minLength: config.PASSWORD_MIN_LENGTH,
    common: commonPasswords(config.PASSWORD_MIN_LENGTH),
  },
  tokenService: createTokenServiceClient(sessions),
  now: () => new Date(),
  newId: () => uuidv7(),
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
