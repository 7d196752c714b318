import {
  type CallOptions,
  type ChannelOptions,
  Client,
  type ClientDuplexStream,
  type ClientReadableStream,
  experimental,
  type Metadata,
  type ServiceDefinition,
  type ServiceError,
  status,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import { failureOf, startSpan } from "../telemetry/tracing.ts";
import type { CallContext } from "./call-context.ts";
import {
  definitionOf,
  LIMITED_CONNECT_TIME,
  limitConnectTime,
  pathOf,
  type UnaryDefinition,
} from "./grpc-js-internals.ts";
import { fromRpcError } from "./rpc-errors.ts";
import { toHeaders, toMetadata } from "./rpc-metadata.ts";
import { channelCredentials, type ProcessCertificate } from "./rpc-tls.ts";
import { type Failure, failureWith } from "./unary-attempt.ts";
import { UnaryCalls } from "./unary-calls.ts";

export interface RpcClientOptions {
  /** `host:port`. Several addresses are balanced round robin. */
  address: string;
  /** Name in the peer's certificate. */
  service: string;
  certificate: ProcessCertificate;
  /** Unary. Retried once, only on UNAVAILABLE, at most {@link MAX_RETRIES} at once and then within 10 % of the calls (gRFC A6). */
  idempotentMethods?: readonly string[];
  /** A peer that sends nothing for so long, not even to a ping, is left. Default 5,000. */
  deadAfterMs?: number;
}

/** As many as may be under way at a replica that is killed. */
const MAX_RETRIES = 100;

type ClientClass<C> = new (
  address: string,
  credentials: ReturnType<typeof channelCredentials>,
  options?: ConstructorParameters<typeof Client>[2],
) => C;

const REPLICAS_SCHEME = "replicas";

const LOOK_UP_INTERVAL_MS = 5_000;

type GrpcUri = Parameters<typeof experimental.createResolver>[0];
type Listener = experimental.ResolverListener;

/** grpc-js resolves only after a lost connection, so an added replica would get no calls. */
class ReplicaResolver implements experimental.Resolver {
  readonly #dns: experimental.Resolver;
  #timer: NodeJS.Timeout | undefined;

  constructor(target: GrpcUri, listener: Listener, options: ChannelOptions) {
    this.#dns = experimental.createResolver({ ...target, scheme: "dns" }, listener, options);
  }

  updateResolution(): void {
    this.#dns.updateResolution();
    this.#timer ??= setInterval(
      () => this.#dns.updateResolution(),
      LOOK_UP_INTERVAL_MS * (0.8 + Math.random() * 0.4),
    ).unref();
  }

  destroy(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#dns.destroy();
  }

  static getDefaultAuthority(target: GrpcUri): string {
    return target.path;
  }
}

experimental.registerResolver(REPLICAS_SCHEME, ReplicaResolver);
limitConnectTime();

/** Of a client of {@link createRpcClient}. */
const UNARY = Symbol("unary calls");

/** Connects on demand to all addresses, with mutual TLS. Unary calls are made by {@link callUnary}. */
export function createRpcClient<C extends Client>(clientClass: ClientClass<C>, options: RpcClientOptions): C {
  const credentials = channelCredentials(options.certificate, options.service);
  const { address, deadAfterMs = 5_000, idempotentMethods = [] } = options;
  const client = new clientClass(`${REPLICAS_SCHEME}:${address}`, credentials, {
    "grpc.service_config": JSON.stringify({ loadBalancingConfig: [{ round_robin: {} }] }),
    "grpc.service_config_disable_resolution": 1,
    // A process that stands still for a while must not take its peers for dead: the wait is the longer part.
    "grpc.keepalive_time_ms": deadAfterMs / 4,
    "grpc.keepalive_timeout_ms": (deadAfterMs / 4) * 3,
    "grpc.dns_min_time_between_resolutions_ms": 1_000,
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 1_000,
    "grpc.max_receive_message_length": 4 * 1024 * 1024,
    "grpc.enable_http_proxy": 0,
    [LIMITED_CONNECT_TIME]: 1,
    // Keeps IP addresses out of the SNI (RFC 6066). The SPIFFE name identifies the peer.
    "grpc.ssl_target_name_override": options.service,
  });
  const unary = new UnaryCalls(client, { authority: address, idempotentMethods, maxTokens: 2 * MAX_RETRIES });
  const close = () => {
    unary.close();
    Client.prototype.close.call(client);
  };
  return Object.assign(client, { [UNARY]: unary, close });
}

/** A method of a generated client, which has a definition that its type does not show, or the definition. */
export type UnaryMethod<Q, R> =
  | ((
      request: Q,
      metadata: Metadata,
      options: Partial<CallOptions>,
      callback: (error: ServiceError | null, response: R) => void,
    ) => unknown)
  | UnaryDefinition<Q, R>;

/** @throws {DomainError} the peer's error, or `service_unavailable`. */
export function callUnary<Q, R>(
  client: Client,
  method: UnaryMethod<Q, R>,
  request: Q,
  context: CallContext,
): Promise<R> {
  const calls = (client as { [UNARY]?: UnaryCalls })[UNARY];
  const span = startSpan("client", pathOf(method), context.traceparent);
  const sent = { ...context, traceparent: span.traceparent };
  const { deadlineMs } = context;
  return new Promise((resolve, reject) => {
    const fail = (error: unknown) => {
      const failure = fromRpcError(error);
      span.end({}, failureOf(failure));
      reject(failure);
    };
    const succeed = (response: R) => {
      span.end();
      resolve(response);
    };
    if (calls === undefined) {
      // Another client makes its calls itself.
      if (typeof method !== "function") throw new Error("A definition needs a client of createRpcClient");
      method.call(client, request, toMetadata(sent), { deadline: deadlineMs }, (error, response) =>
        error === null ? succeed(response) : fail(error),
      );
      return;
    }
    const { path, requestSerialize, responseDeserialize } = definitionOf<Q, R>(method);
    const call = { path, message: requestSerialize(request), headers: toHeaders(sent), deadlineMs };
    calls.start(call, (outcome) => {
      if (!Buffer.isBuffer(outcome)) return fail(toError(outcome));
      try {
        succeed(responseDeserialize(outcome));
      } catch (cause) {
        fail(toError(failureWith(status.INTERNAL, "The response cannot be read"), cause));
      }
    });
  });
}

/** No deadline: the caller must detect silence. */
export function openServerStream<C extends Client, Q, R>(
  client: C,
  method: (request: Q, metadata: Metadata) => ClientReadableStream<R>,
  request: Q,
  context: CallContext,
): ClientReadableStream<R> {
  return method.call(client, request, toMetadata(context));
}

/** No deadline: the caller must detect silence. */
export function openBidiStream<C extends Client, Q, R>(
  client: C,
  method: (metadata: Metadata) => ClientDuplexStream<Q, R>,
  context: CallContext,
): ClientDuplexStream<Q, R> {
  return method.call(client, toMetadata(context));
}

/** As grpc-js has it. */
function toError({ code, details, metadata }: Failure, cause?: unknown): ServiceError {
  const error = new Error(`${code} ${status[code]}: ${details}`, { cause });
  return Object.assign(error, { code, details, metadata });
}

interface UnaryOfService<Q, R> extends UnaryDefinition<Q, R> {
  requestStream: false;
  responseStream: false;
}

/** @throws {DomainError} the peer's error, or `service_unavailable`. */
export type RpcMethods<S> = {
  readonly [M in keyof S as S[M] extends UnaryOfService<never, unknown>
    ? M
    : never]: S[M] extends UnaryOfService<infer Q, infer R>
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
        unary.map(([name, definition]) => [
          name,
          (request: unknown, context: CallContext) =>
            callUnary<unknown, unknown>(client, definition, request, context),
        ]),
      ) as RpcMethods<S>;
    },
    close: () => client.close(),
  };
}
