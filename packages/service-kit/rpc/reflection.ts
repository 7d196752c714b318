import { EventEmitter } from "node:events";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import type {
  handleBidiStreamingCall,
  MethodDefinition,
  ServiceDefinition,
  UntypedServiceImplementation,
} from "@grpc/grpc-js";
import type { RpcServer } from "./rpc-server.ts";

/** All services of the contract, with their messages. Written by `npm run generate`. */
const DESCRIPTORS = resolve(import.meta.dirname, "..", "..", "..", "proto", "gen", "descriptors.binpb");
/** Tools try the second one if a server does not know the first. */
const VERSIONS = ["v1", "v1alpha"] as const;

type Version = (typeof VERSIONS)[number];

interface ReflectionServer {
  serverReflectionInfo: handleBidiStreamingCall<Buffer, Buffer>;
}

const pathOf = (version: Version) => `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`;

const asItIs = (bytes: Buffer) => bytes;

/** Bytes, so that the library and the descriptors are loaded by the first call: they take 20 MB. */
const definitionOf = (version: Version): ServiceDefinition<UntypedServiceImplementation> => ({
  serverReflectionInfo: {
    path: pathOf(version),
    requestStream: true,
    responseStream: true,
    requestSerialize: asItIs,
    requestDeserialize: asItIs,
    responseSerialize: asItIs,
    responseDeserialize: asItIs,
  },
});

/** Shows operators which services and messages this server has (gRPC server reflection). */
export function addReflection(server: RpcServer): void {
  const services = [...server.services];
  for (const version of VERSIONS) {
    server.add<ReflectionServer>(
      definitionOf(version),
      { serverReflectionInfo: ["operator"] },
      {
        async *serverReflectionInfo(requests) {
          const { answer } = await loadReflection(version, services);
          for await (const request of requests) yield answer(request);
        },
      },
      ["serverReflectionInfo"],
    );
  }
}

/** @param services that are listed. */
async function loadReflection(version: Version, services: readonly string[]) {
  const { file: files } = fromBinary(FileDescriptorSetSchema, await readFile(DESCRIPTORS));
  // The library reads nothing else of a package definition. Those of proto-loader would have relative names.
  const descriptors = files.map((file) => Buffer.from(toBinary(FileDescriptorProtoSchema, file)));
  const { method, handler } = await fromLibrary(version, descriptors, services);
  return {
    answer(request: Buffer): Buffer {
      let answered: object = {};
      const stream = Object.assign(new EventEmitter(), {
        write(response: object) {
          answered = response;
        },
        end() {},
      });
      handler(stream);
      stream.emit("data", method.requestDeserialize(request));
      return method.responseSerialize(answered);
    },
  };
}

/** For clients: how questions and answers are encoded. */
export async function reflectionMethod(): Promise<MethodDefinition<object, object>> {
  return (await fromLibrary("v1", [], [])).method;
}

/** `@grpc/reflection` exports neither its protocol nor its handlers, but gives both to any server. */
async function fromLibrary(version: Version, descriptors: readonly Buffer[], services: readonly string[]) {
  const { ReflectionService } = await import("@grpc/reflection");
  const library = new ReflectionService({ all: { fileDescriptorProtos: descriptors } } as never, {
    services: [...services],
  });
  let found:
    | { method: MethodDefinition<object, object>; handler: (stream: EventEmitter) => void }
    | undefined;
  library.addToServer({
    addService(definition, handlers) {
      const [[name, method] = []] = Object.entries(definition);
      if (name === undefined || method?.path !== pathOf(version)) return;
      found = { method, handler: handlers[name] as unknown as (stream: EventEmitter) => void };
    },
  });
  if (found === undefined) throw new Error(`@grpc/reflection has no ${version}`);
  return found;
}
