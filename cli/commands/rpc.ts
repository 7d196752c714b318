import {
  createFileRegistry,
  type DescField,
  type DescMethod,
  type DescService,
  type FileRegistry,
  fromBinary,
  ScalarType,
  toBinary,
  toJson,
} from "@bufbuild/protobuf";
import { type FileDescriptorProto, FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { Client } from "@grpc/grpc-js";
import { callUnary, openServerStream } from "#kit/rpc/rpc-client.ts";
import { fromRpcError } from "#kit/rpc/rpc-errors.ts";
import { askReflection } from "../ask-reflection.ts";
import type { Backend } from "../backend.ts";
import { type BackendService, SERVICES } from "../backend-settings.ts";
import { CliError } from "../cli-error.ts";
import type { Command, Terminal } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { printableJson } from "../printable.ts";
import { UsageError } from "../usage-error.ts";
import { parseRequest, type RpcRequest, readRequest } from "./rpc-request.ts";
import { table } from "./table.ts";
import { wholeNumber } from "./whole-number.ts";

const SILENCE_S = 600;
const MAX_SILENCE_S = 86_400;
const NAMES = Object.keys(SERVICES) as BackendService[];

export const rpc: Command = {
  name: "rpc",
  summary: "Call any gRPC method with JSON, or list the methods",
  details:
    "`rpc --list` shows every method that the services offer, `rpc --list KeyService/RevokeSigningKey` the fields of one. " +
    "The part of a service's name before its last dot may be left out. JSON has the form of ProtoJSON: times as " +
    "2026-11-21T09:30:00Z, bytes in base64, enumerations by name. Answers of a stream are printed one a line. A method may " +
    "be for other callers than operators; then the call is refused. A secret belongs into --file or standard input: every " +
    "user of this machine can read the arguments of a process.",
  positionals: [],
  optionalPositionals: ["service/method", "json"],
  options: {
    list: { type: "boolean", description: "list methods, or the fields of one" },
    file: { type: "string", value: "file", description: "with the JSON; `-` in its place: standard input" },
    timeout: {
      type: "string",
      value: "seconds",
      description: `a stream ends after so long without an answer; default: ${SILENCE_S}`,
    },
  },
  async run({ positionals: [name, json], flags, values }, backend, terminal) {
    if (flags.has("list")) return name === undefined ? listMethods(backend) : describe(backend, name);
    if (name === undefined)
      throw new UsageError("Missing: <service/method>, or --list", "gatehouse rpc --help");
    const silenceS = wholeNumber(values, "timeout", { min: 1, max: MAX_SILENCE_S }) ?? SILENCE_S;
    const given = await readRequest(json, values.get("file"));
    const found = await findMethod(backend, name);
    const request = parseRequest(found.method, given);
    if (found.method.methodKind === "unary") return call(backend, found, request);
    if (found.method.methodKind === "server_streaming")
      return stream(backend, found, request, { terminal, silenceS });
    throw new UsageError(`${name} takes a stream of requests, which this command cannot send`);
  },
};

interface Found {
  server: BackendService;
  service: DescService;
  method: DescMethod;
  registry: FileRegistry;
}

async function call(backend: Backend, { server, method, service, registry }: Found, request: RpcRequest) {
  const answer = await backend.call(server, Client, (client, context) =>
    callUnary<RpcRequest, RpcRequest>(
      client,
      {
        path: pathOf(service, method),
        requestSerialize: (message) => Buffer.from(toBinary(method.input, message)),
        responseDeserialize: (bytes) => fromBinary(method.output, bytes),
      },
      request,
      context,
    ),
  );
  const json = toJson(method.output, answer, { registry, alwaysEmitImplicit: true }) as object;
  return { text: printableJson(json, 2), json };
}

async function stream(
  backend: Backend,
  { server, method, service, registry }: Found,
  request: RpcRequest,
  { terminal, silenceS }: { terminal: Terminal; silenceS: number },
): Promise<undefined> {
  await backend.call(server, Client, async (client, context) => {
    const answers = openServerStream<Client, RpcRequest, RpcRequest>(
      client,
      (message, metadata) =>
        client.makeServerStreamRequest(
          pathOf(service, method),
          (each: RpcRequest) => Buffer.from(toBinary(method.input, each)),
          (bytes) => fromBinary(method.output, bytes),
          message,
          metadata,
        ),
      request,
      context,
    );
    // A service that hangs keeps its connection.
    const silence = setTimeout(() => answers.destroy(tooSilent(server, silenceS)), silenceS * 1_000);
    try {
      for await (const answer of answers) {
        silence.refresh();
        await terminal.writeOut(
          `${printableJson(toJson(method.output, answer as RpcRequest, { registry }))}\n`,
        );
      }
    } catch (error) {
      throw isServiceError(error) ? fromRpcError(error) : error;
    } finally {
      clearTimeout(silence);
      answers.cancel();
    }
  });
  return undefined;
}

function tooSilent(server: BackendService, seconds: number): CliError {
  const message = `${server} has sent nothing for ${seconds} s (--timeout)`;
  return new CliError(message, { exitCode: EXIT.unavailable, code: "service_unavailable" });
}

type ServiceError = Parameters<typeof fromRpcError>[0];
const isServiceError = (error: unknown): error is ServiceError =>
  error instanceof Error && "metadata" in error && "code" in error;

const pathOf = (service: DescService, method: DescMethod) => `/${service.typeName}/${method.name}`;

async function listMethods(backend: Backend) {
  const methods = (await listServices(backend)).flatMap(({ server, services }) =>
    services.map(async (name) => ({ server, service: await loadService(backend, server, name) })),
  );
  const rows = (await Promise.all(methods)).flatMap(({ server, service: { service } }) =>
    service.methods.map((method) => ({
      server,
      method: pathOf(service, method).slice(1),
      kind: method.methodKind,
    })),
  );
  const text = table(
    ["METHOD", "KIND", "SERVER"],
    rows.map(({ method, kind, server }) => [method, kind, server]),
  );
  return { text, json: { methods: rows } };
}

async function describe(backend: Backend, name: string) {
  const { service, method, server } = await findMethod(backend, name);
  const fieldsOf = ({ fields }: DescMethod["input"]) =>
    fields.map((field) => ({ name: field.jsonName, type: typeOf(field) }));
  const [request, response] = [fieldsOf(method.input), fieldsOf(method.output)];
  const shown = (fields: { name: string; type: string }[]) =>
    fields.length === 0 ? "  nothing" : fields.map((field) => `  ${field.name}: ${field.type}`).join("\n");
  const path = pathOf(service, method).slice(1);
  return {
    text: `${path} (${method.methodKind}, ${server})\nRequest:\n${shown(request)}\nResponse:\n${shown(response)}`,
    json: { method: path, kind: method.methodKind, server, request, response },
  };
}

async function findMethod(backend: Backend, name: string): Promise<Found> {
  const [wanted = "", methodName] = name.split("/");
  const isMeant = (service: string) => service === wanted || service.endsWith(`.${wanted}`);
  const listed = await listServices(backend, wanted);
  const candidates = listed.flatMap(({ server, services }) =>
    services.filter(isMeant).map((service) => ({ server, service })),
  );
  const [found, other] = candidates;
  if (found === undefined || other !== undefined) {
    const known = listed.flatMap(({ services }) => services).join(", ");
    const problem = found === undefined ? "is not offered" : "is ambiguous";
    throw new UsageError(`The service ${wanted} ${problem}. There are: ${known}`, "gatehouse rpc --list");
  }
  const { service, registry } = await loadService(backend, found.server, found.service);
  const method = service.methods.find((each) => each.name === methodName);
  if (method === undefined) {
    const known = service.methods.map((each) => each.name).join(", ");
    throw new UsageError(
      `${service.typeName} has no method ${methodName ?? ""}. There are: ${known}`,
      "gatehouse rpc --list",
    );
  }
  return { server: found.server, service, method, registry };
}

/** A service that is away hides only its own methods. */
async function listServices(backend: Backend, wanted = "") {
  const [, known] = /^gatehouse\.(\w+)\./.exec(wanted) ?? [];
  const servers = NAMES.filter((name) => known === undefined || name === `${known}-service`);
  const answers = await Promise.allSettled(
    servers.map(async (server) => {
      const [answer] = await askReflection(backend, server, [{ listServices: "*" }]);
      return { server, services: answer?.listServicesResponse?.service.map(({ name }) => name) ?? [] };
    }),
  );
  const listed = answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
  const failure = answers.find((answer) => answer.status === "rejected");
  if (listed.length === 0 && failure !== undefined) throw failure.reason;
  return listed;
}

async function loadService(backend: Backend, server: BackendService, name: string) {
  const [answer] = await askReflection(backend, server, [{ fileContainingSymbol: name }]);
  const files = (answer?.fileDescriptorResponse?.fileDescriptorProto ?? []).map((bytes) =>
    fromBinary(FileDescriptorProtoSchema, new Uint8Array(bytes)),
  );
  const registry = createFileRegistry({
    $typeName: "google.protobuf.FileDescriptorSet",
    file: inOrder(files),
    $unknown: [],
  });
  const service = registry.getService(name);
  if (service !== undefined) return { service, registry };
  throw new CliError(`${server} does not describe ${name}`, {
    exitCode: EXIT.failed,
    code: "internal_error",
  });
}

/** Imported files first, as a registry needs them. */
function inOrder(files: readonly FileDescriptorProto[]): FileDescriptorProto[] {
  const byName = new Map(files.map((file) => [file.name, file]));
  const ordered = new Set<FileDescriptorProto>();
  const visit = (file: FileDescriptorProto) => {
    for (const name of file.dependency) {
      const imported = byName.get(name);
      if (imported !== undefined && !ordered.has(imported)) visit(imported);
    }
    ordered.add(file);
  };
  for (const file of files) visit(file);
  return [...ordered];
}

function typeOf(field: DescField): string {
  const one =
    field.message?.typeName ?? field.enum?.typeName ?? ScalarType[field.scalar ?? 0] ?? field.fieldKind;
  const type = one.includes(".") ? one : one.toLowerCase();
  return field.fieldKind === "list" ? `repeated ${type}` : type;
}
