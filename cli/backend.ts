import { existsSync } from "node:fs";
import { resolve } from "node:path";
import type { Client } from "@grpc/grpc-js";
import { tlsConfig } from "#kit/config/config.ts";
import { type CallContext, newCallContext } from "#kit/rpc/call-context.ts";
import { createRpcClient } from "#kit/rpc/rpc-client.ts";
import { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";
import { DomainError } from "#kit/values/errors.ts";
import {
  type BackendService,
  type BackendSettings,
  backendSettings,
  SERVICES,
  type SettingsSources,
} from "./backend-settings.ts";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";
import { OPERATIONS, type OperationsAddress, operationsAddresses } from "./operations-addresses.ts";

export interface Backend {
  /** The context has one deadline for all calls. @throws {CliError} */
  call<C extends Client, R>(
    service: BackendService,
    clientClass: ClientClass<C>,
    work: (client: C, context: CallContext) => Promise<R>,
  ): Promise<R>;
  /** @throws {CliError} 78 with all problems. */
  settings(service: BackendService): BackendSettings;
  operationsAddresses(): OperationsAddress[];
  environment: SettingsSources["environment"];
  /** Read from the home of the local Gatehouse. It may not exist. */
  home: string;
  /** Whether the addresses come from that home. */
  isLocal: boolean;
}

type ClientClass<C extends Client> = Parameters<typeof createRpcClient<C>>[0];

const CANNOT_ANSWER_NOW: ReadonlySet<string> = new Set(["service_unavailable", "audit_unavailable", "busy"]);

/** The servers' limit for a call. */
const BUDGET_MS = 10_000;

export function createBackend(sources: SettingsSources): Backend {
  return {
    environment: sources.environment,
    home: resolve(sources.values.get("home") ?? sources.defaultHome),
    isLocal: isLocal(sources),
    settings: (service) => backendSettings(service, sources),
    operationsAddresses: () => operationsAddresses(sources),
    async call(service, clientClass, work) {
      const settings = backendSettings(service, sources);
      const certificate = openCertificate(settings);
      const client = createRpcClient(clientClass, { address: settings.address, service, certificate });
      const context = newCallContext({ budgetMs: BUDGET_MS });
      try {
        return await work(client, context);
      } catch (error) {
        if (!(error instanceof DomainError)) throw error;
        throw toCliError(error, `${service} at ${settings.address}`, context.requestId);
      } finally {
        client.close();
        certificate.close();
      }
    },
  };
}

/** The precedence is that of `backendSettings`. */
function isLocal({ values, environment, defaultHome }: SettingsSources): boolean {
  if (values.has("home")) return true;
  const addresses = [...Object.values(SERVICES), ...Object.values(OPERATIONS)].map(({ address }) => address);
  const isNamed = [...addresses, ...Object.keys(tlsConfig)].some((name) => environment[name]);
  return !isNamed && existsSync(defaultHome);
}

function openCertificate({ tls }: BackendSettings): ProcessCertificate {
  try {
    return new ProcessCertificate(tls);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const message = `The certificate ${tls.certFile} cannot be used: ${reason}`;
    throw new CliError(message, { exitCode: EXIT.config, code: "configuration", cause: error });
  }
}

function toCliError(error: DomainError, peer: string, requestId: string): CliError {
  const { code, cause } = error;
  const exitCode = CANNOT_ANSWER_NOW.has(code) ? EXIT.unavailable : EXIT.failed;
  // A cause exists if the transport failed. Otherwise the service answered.
  const details = (cause as { details?: unknown } | undefined)?.details;
  const isTransport = code === "service_unavailable" && typeof details === "string";
  const problems = error.fields.map(({ field, message: problem }) => `${field} ${problem}`).join("; ");
  const answer = `${peer}: ${problems === "" ? error.message : problems}`;
  const message = isTransport ? `${peer} cannot be reached: ${details}` : answer;
  return new CliError(message, { exitCode, code, requestId, cause: error });
}
