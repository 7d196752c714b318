import type { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect, type TLSSocket } from "node:tls";
import type { TlsFiles } from "#kit/rpc/rpc-tls.ts";
import { askReflection } from "../ask-reflection.ts";
import type { Backend } from "../backend.ts";
import { type BackendService, type BackendSettings, SERVICES } from "../backend-settings.ts";
import { CliError } from "../cli-error.ts";
import { EXIT } from "../exit-code.ts";
import { nameOf, validityProblems } from "./certificates.ts";
import { checking, type Finding, failed, ok, reasonOf, unchecked } from "./finding.ts";
import { type Place, resolvePlaces } from "./places.ts";

const TIMEOUT_MS = 8_000;

/** The ports that the services call each other on, with the certificates that they show there. */
export async function checkRpcPorts(backend: Backend, nowMs: number): Promise<readonly Finding[]> {
  const names = Object.keys(SERVICES) as BackendService[];
  const all = names.map((service) => checking("port", service, () => checkPort(service, backend, nowMs)));
  return (await Promise.all(all)).flat();
}

async function checkPort(service: BackendService, backend: Backend, nowMs: number): Promise<Finding[]> {
  let settings: BackendSettings;
  try {
    settings = backend.settings(service);
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    const why = error.message
      .split("\n")
      .slice(1)
      .map((line) => line.trim())
      .join(" ");
    return [unchecked("port", service, why)];
  }
  const places = await resolvePlaces(settings.address).catch((error: unknown) => reasonOf(error));
  if (typeof places === "string") return [unreachable(service, settings.address, places)];
  const found = await Promise.all(places.map((place) => checkPlace(service, place, settings.tls, nowMs)));
  return found.flat();
}

async function checkPlace(
  service: BackendService,
  place: Place,
  tls: TlsFiles,
  nowMs: number,
): Promise<Finding[]> {
  let peer: Awaited<ReturnType<typeof shakeHands>>;
  try {
    peer = await shakeHands(service, place, tls);
  } catch (error) {
    return [unreachable(service, place.name, reasonOf(error))];
  }
  const { certificate, problem } = peer;
  const name = nameOf(certificate);
  const sound = validityProblems(service, `what ${place.name} shows`, certificate, nowMs);
  if (sound.length > 0) return sound;
  if (problem !== undefined) {
    const found = `${place.name} shows a certificate of another authority (${problem})`;
    return [failed("port", service, found, "Correct TLS_CA_FILE, or the address")];
  }
  if (name !== service) {
    return [failed("port", service, `${name} answers at ${place.name}`, "Correct the address")];
  }
  return [ok("port", service, `${name} answers at ${place.name}`)];
}

function unreachable(service: BackendService, place: string, why: string): Finding {
  return failed(
    "port",
    service,
    `${place} cannot be reached (${why})`,
    `Start ${service}; its log says why it ended`,
  );
}

/** gRPC's own errors do not say whose certificate was shown. */
async function shakeHands(service: BackendService, { host, port }: Place, files: TlsFiles) {
  const socket: TLSSocket = connect({
    host,
    port,
    servername: service,
    ALPNProtocols: ["h2"],
    minVersion: "TLSv1.3",
    rejectUnauthorized: false,
    checkServerIdentity: () => undefined,
    ca: readFileSync(files.caFile),
    cert: readFileSync(files.certFile),
    key: readFileSync(files.keyFile),
  });
  try {
    await once(socket, "secureConnect", { signal: AbortSignal.timeout(TIMEOUT_MS) });
    const certificate = socket.getPeerX509Certificate() as X509Certificate;
    return { certificate, problem: socket.authorized ? undefined : String(socket.authorizationError) };
  } finally {
    socket.on("error", () => undefined);
    socket.destroy();
  }
}

/** Reflection is for operators only, changes nothing, and is asked of each service. */
export async function checkCaller(backend: Backend, person: string | undefined): Promise<readonly Finding[]> {
  const names = Object.keys(SERVICES) as BackendService[];
  if (person?.startsWith("operator:") !== true) {
    const why = `only an operator may ask, and this is ${person ?? "no operator"}`;
    return names.map((service) => unchecked("permission", service, why, "Use an operator's certificate"));
  }
  const all = names.map((service) =>
    checking("permission", service, () => mayCall(service, backend, person)),
  );
  return (await Promise.all(all)).flat();
}

async function mayCall(service: BackendService, backend: Backend, person: string): Promise<Finding[]> {
  try {
    await askReflection(backend, service, [{ listServices: "*" }]);
    return [ok("permission", service, `${person} may call it`)];
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    if (error.exitCode === EXIT.unavailable)
      return [unchecked("permission", service, "it cannot be reached")];
    if (error.code === "internal_error") {
      const action = "Set GRPC_REFLECTION=true there, or try a command, such as gatehouse keys list";
      return [unchecked("permission", service, "it does not describe itself", action)];
    }
    if (error.code !== "caller_not_allowed") return [unchecked("permission", service, reasonOf(error))];
    const action = "See REFUSED_PEOPLE_FILE of the service: docs/operations/rotate.md, Certificates";
    return [failed("permission", service, `it refuses ${person}`, action)];
  }
}
