import { Client, type ServiceDefinition, type UntypedServiceImplementation } from "@grpc/grpc-js";
import type { CallContext } from "./call-context.ts";
import { callUnary, createRpcClient, type RpcClientOptions, type UnaryMethod } from "./rpc-client.ts";

interface UnaryDefinition<Q, R> {
  requestStream: false;
  responseStream: false;
  requestSerialize: (request: Q) => Buffer;
  responseDeserialize: (bytes: Buffer) => R;
}

/** @throws {DomainError} the peer's error, or `service_unavailable`. */
export type RpcMethods<S> = {
  readonly [M in keyof S as S[M] extends UnaryDefinition<never, unknown>
    ? M
    : never]: S[M] extends UnaryDefinition<infer Q, infer R>
    ? (request: Q, context: CallContext) => Promise<R>
    : never;
};

interface RpcChannel {
  methodsOf<S extends ServiceDefinition<UntypedServiceImplementation>>(service: S): RpcMethods<S>;
  close(): void;
}

export function openRpcChannel(options: RpcClientOptions): RpcChannel {
  const client = createRpcClient(Client, options);
  return {
    methodsOf<S extends ServiceDefinition<UntypedServiceImplementation>>(service: S) {
      const unary = Object.entries(service).filter(
        ([, { requestStream, responseStream }]) => !requestStream && !responseStream,
      );
      return Object.fromEntries(
        unary.map(([name, { path, requestSerialize, responseDeserialize }]) => {
          const call: UnaryMethod<unknown, unknown> = (request, metadata, callOptions, done) =>
            client.makeUnaryRequest(
              path,
              requestSerialize,
              responseDeserialize,
              request,
              metadata,
              callOptions,
              (error, response) => done(error, response),
            );
          const method = Object.assign(call, { path });
          return [
            name,
            (request: unknown, context: CallContext) => callUnary(client, method, request, context),
          ];
        }),
      ) as RpcMethods<S>;
    },
    close: () => client.close(),
  };
}
