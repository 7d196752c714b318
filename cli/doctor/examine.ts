import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { peerOf, type TlsFiles } from "#kit/rpc/rpc-tls.ts";
import type { Backend } from "../backend.ts";
import { CliError } from "../cli-error.ts";
import { EXIT } from "../exit-code.ts";
import {
  type ConfiguredService,
  checkServiceConfiguration,
  configurationProblems,
} from "../service-configuration.ts";
import { checkAuthorities, checkCertificate } from "./certificates.ts";
import { checkDatabases } from "./databases.ts";
import { checking, type Finding, failed, ok, unchecked } from "./finding.ts";
import type { Environment, KnownSystem } from "./known-system.ts";
import { checkOperationsPorts } from "./operations-ports.ts";
import { checkOutsidePorts } from "./outside-ports.ts";
import { checkPrivateFiles } from "./private-files.ts";
import { checkRedisServers } from "./redis-servers.ts";
import { checkCaller, checkRpcPorts } from "./rpc-ports.ts";

const CONFIGURATION_TIMEOUT_MS = 14_000;

/**
 * Looks at all places at once, so that what is away costs no more than one time limit. The services' programs
 * are started after that, one by one: their load must not be taken for slowness of the system.
 * @param now milliseconds since the epoch.
 */
export async function examine(
  known: KnownSystem,
  backend: Backend,
  now: () => number = Date.now,
): Promise<readonly Finding[]> {
  const own = ownFiles(backend);
  const parts = await Promise.all([
    "files" in own ? ownCertificate(own.files, now()) : [own.finding],
    [...known.environments].flatMap(([service, environment]) =>
      serviceCertificate(service, environment, now()),
    ),
    authorities(known, now()),
    checkRpcPorts(backend, now()),
    checkOperationsPorts(backend, now),
    checkOutsidePorts(known),
    known.home === undefined ? [] : checkPrivateFiles(known.home),
    checkCaller(backend, "files" in own ? personOf(own.files) : undefined),
    checkDatabases(known, now),
    checkRedisServers(known, now),
  ]);
  const configurations: Finding[] = [];
  for (const [service, environment] of known.environments) {
    configurations.push(...(await checkConfiguration(service, environment)));
  }
  return [...known.findings, ...configurations, ...parts.flat()];
}

function checkConfiguration(
  service: ConfiguredService,
  environment: Environment,
): Promise<readonly Finding[]> {
  return checking("configuration", service, async () => {
    const { code, said } = await checkServiceConfiguration(service, environment, CONFIGURATION_TIMEOUT_MS);
    if (code === 0) return [ok("configuration", service, "it could start with its variables and files")];
    if (code !== EXIT.config)
      return [unchecked("configuration", service, `its program ended with ${code ?? "a signal"}`)];
    const action =
      "Correct it: docs/config.md. Where files are missing only here, check it where the service runs";
    return foldLines(configurationProblems(said)).map((problem) =>
      failed("configuration", service, problem, action),
    );
  });
}

/** The problems of a file that a variable names stand below it. */
function foldLines(lines: readonly string[]): string[] {
  const problems: string[] = [];
  for (const line of lines) {
    if (problems.length === 0 || /^[A-Z][A-Z0-9_]*: /.test(line)) problems.push(line);
    else problems.push(`${problems.pop()} ${line};`);
  }
  return problems.map((problem) => problem.replace(/;$/, ""));
}

/** The files that this program itself calls with. */
function ownFiles(backend: Backend): { files: TlsFiles } | { finding: Finding } {
  try {
    return { files: backend.settings("token-service").tls };
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    const found = error.message
      .split("\n")
      .slice(1)
      .map((line) => line.trim());
    const action = "See docs/cli.md, Addresses and certificates";
    return { finding: failed("certificate", "this program", found.join(" "), action) };
  }
}

function ownCertificate(files: TlsFiles, nowMs: number): Finding[] {
  return checkCertificate({ subject: "this program", files, service: undefined, nowMs });
}

function personOf({ certFile }: TlsFiles): string | undefined {
  try {
    const { subjectAltName } = new X509Certificate(readFileSync(certFile));
    return peerOf({ subjectaltname: subjectAltName })?.person;
  } catch {
    return undefined;
  }
}

function serviceCertificate(service: ConfiguredService, environment: Environment, nowMs: number): Finding[] {
  const { TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile, TLS_CA_FILE: caFile } = environment;
  if (!certFile || !keyFile || !caFile) return []; // The check of the configuration says so.
  return checkCertificate({ subject: service, files: { certFile, keyFile, caFile }, service, nowMs });
}

/** Each file once. */
function authorities({ environments }: KnownSystem, nowMs: number): Finding[] {
  const paths = [...environments.values()].flatMap((environment) =>
    Object.entries(environment).flatMap(([name, path]) => (name.endsWith("_CA_FILE") && path ? [path] : [])),
  );
  return [...new Set(paths)].flatMap((path) => checkAuthorities(path, nowMs));
}
