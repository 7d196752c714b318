import { Client, status } from "@grpc/grpc-js";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { createTestCertificates, type TestCertificates } from "#tests/support/system/certificates.ts";
import { freePort } from "#tests/support/system/free-port.ts";
import { serviceConfig } from "../config/config.ts";
import { serveRpc } from "../process/service-process.ts";
import { createMetrics } from "../telemetry/metrics.ts";
import { newCallContext } from "./call-context.ts";
import { reflectionMethod } from "./reflection.ts";
import { createRpcClient } from "./rpc-client.ts";
import { toMetadata } from "./rpc-metadata.ts";

let certificates: TestCertificates;
const stops: (() => Promise<void> | void)[] = [];
beforeAll(async () => {
  certificates = await createTestCertificates();
});
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});
afterAll(() => certificates.remove());

/** @returns its address. */
async function serve(value: string | undefined): Promise<string> {
  const LISTEN_ADDRESS = `127.0.0.1:${await freePort()}`;
  const lifecycle = {
    onStop: (_name: string, stop: () => Promise<void> | void) => stops.push(stop),
    unreadyReasons: async () => [],
  };
  const service = {
    logger: pino({ level: "silent" }),
    metrics: createMetrics("token-service"),
    certificate: certificates.of("token-service"),
    lifecycle: lifecycle as never,
  };
  const GRPC_REFLECTION = serviceConfig.GRPC_REFLECTION.parse(value);
  const config = { LISTEN_ADDRESS, HEALTH_ADDRESS: "127.0.0.1:0", SHUTDOWN_GRACE_MS: 0, GRPC_REFLECTION };
  await serveRpc(service, config, { databases: [], register: () => undefined });
  return LISTEN_ADDRESS;
}

/** @returns the status. */
async function ask(address: string, caller: Parameters<TestCertificates["of"]>[0]): Promise<status> {
  const certificate = certificates.of(caller);
  const client = createRpcClient(Client, { address, service: "token-service", certificate });
  stops.push(() => client.close());
  const { path, requestSerialize, responseDeserialize } = await reflectionMethod();
  const context = newCallContext({ budgetMs: 30_000 });
  const options = { deadline: context.deadlineMs };
  const metadata = toMetadata(context);
  const call = client.makeBidiStreamRequest(path, requestSerialize, responseDeserialize, metadata, options);
  call.on("error", () => undefined);
  call.resume();
  call.end({ listServices: "*" });
  return new Promise((resolve) => call.on("status", ({ code }) => resolve(code)));
}

test("unless GRPC_REFLECTION is true, a service describes itself to nobody", async () => {
  for (const value of [undefined, "false"]) {
    expect(await ask(await serve(value), "operator")).toBe(status.UNIMPLEMENTED);
  }
});

test("with GRPC_REFLECTION a service describes itself to operators, and to nobody else", async () => {
  const address = await serve("true");
  expect(await ask(address, "operator")).toBe(status.OK);
  for (const caller of ["auditor", "gateway", "identity-service"] as const) {
    expect(await ask(address, caller)).toBe(status.PERMISSION_DENIED);
  }
});
