import type { ClientHttp2Session, Http2Session } from "node:http2";
import { type Client, Metadata, type Server } from "@grpc/grpc-js";
import { Http2SubchannelConnector } from "@grpc/grpc-js/build/src/transport.js";

/** All private parts of grpc-js that are used. Its version is pinned; the tests of this file fail if a part is missing. */

/** The channel's options are the last parameter. The address is passed to `net.connect`. */
type Connect = (this: unknown, address: { signal?: AbortSignal }, ...rest: unknown[]) => Promise<unknown>;

/** Of all channels. `connect` includes TLS and the settings of HTTP/2. */
const connector = Http2SubchannelConnector.prototype as unknown as Record<"connect" | "tcpConnect", Connect>;

function streamOf(call: object): { session?: Http2Session } | undefined {
  return (call as { call?: { stream?: { session?: Http2Session } } }).call?.stream;
}

/** Of a call that is served. */
export function sessionOf(call: object): Http2Session | undefined {
  return streamOf(call)?.session;
}

/** The stream has ended. A call cancelled before it was served has no peer. */
export function hasGone(call: object): boolean {
  const stream = streamOf(call);
  return stream !== undefined && stream.session === undefined;
}

/** grpc-js caches a failed bind. */
export function forgetFailedBinding(server: Server): void {
  (server as unknown as { boundPorts?: Map<string, unknown> }).boundPorts?.clear();
}

/** A connection that is ready. Its calls are registered, because only then the peer must answer pings. */
export interface Transport {
  session: ClientHttp2Session;
  addActiveCall(call: ActiveCall): void;
  removeActiveCall(call: ActiveCall): void;
}

interface ActiveCall {
  onDisconnect(): void;
}

interface InternalChannel {
  doPick?(metadata: Metadata, information: object): { subchannel?: Subchannel | null };
}

interface Subchannel {
  getRealSubchannel(): { transport?: Partial<Transport> | null };
}

const NO_METADATA = new Metadata();

/** Of the connection whose turn it is. @returns undefined if none is ready. */
export function nextTransport(client: Client): Transport | undefined {
  const { internalChannel } = client.getChannel() as { internalChannel?: InternalChannel };
  const transport = internalChannel?.doPick?.(NO_METADATA, {}).subchannel?.getRealSubchannel().transport;
  const { session, addActiveCall } = transport ?? {};
  if (session === undefined || addActiveCall === undefined) return undefined;
  return session.closed || session.destroyed ? undefined : (transport as Transport);
}

export interface UnaryDefinition<Q, R> {
  /** `/gatehouse.token.v1.TokenService/VerifyToken`. */
  path: string;
  requestSerialize: (request: Q) => Buffer;
  responseDeserialize: (bytes: Buffer) => R;
}

/** Of a client's method: `gatehouse.token.v1.TokenService/VerifyToken`. */
export function pathOf(method: object): string {
  return "path" in method && typeof method.path === "string" ? method.path.slice(1) : "rpc";
}

/** A client's method has the properties of its definition. @throws for another function. */
export function definitionOf<Q, R>(method: object): UnaryDefinition<Q, R> {
  if ("path" in method && "requestSerialize" in method && "responseDeserialize" in method) {
    return method as UnaryDefinition<Q, R>;
  }
  throw new Error("The method has no definition");
}

/** The kernel would try for two minutes. */
const TCP_CONNECT_TIMEOUT_MS = 1_000;
/** For TCP, TLS and HTTP/2 settings: a stopped process accepts connections but sends nothing. */
const CONNECT_TIMEOUT_MS = 5_000;

/** A process that stood still missed what came meanwhile: its timers are due before it looks at its connections. */
const CONNECT_TICKS = 10;

/** The option of a channel that wants the limits: a process may have others, which are not ours. */
export const LIMITED_CONNECT_TIME = "gatehouse.limited_connect_time";

/**
 * grpc-js has no connect time-out, but the address passed to `net.connect` can carry an abort signal.
 * `tests/rpc/replicas.test.ts` checks the effect.
 */
export function limitConnectTime(): void {
  connector.connect = limited(connector.connect, CONNECT_TIMEOUT_MS);
  connector.tcpConnect = limited(connector.tcpConnect, TCP_CONNECT_TIMEOUT_MS);
}

function limited(connect: Connect, timeoutMs: number): Connect {
  return async function (address, ...rest) {
    const options = rest.at(-1) as Record<string, unknown> | undefined;
    if (options?.[LIMITED_CONNECT_TIME] !== 1) return connect.call(this, address, ...rest);
    const late = new AbortController();
    let ticks = 0;
    const timer = setInterval(() => {
      ticks += 1;
      if (ticks === CONNECT_TICKS) late.abort();
    }, timeoutMs / CONNECT_TICKS);
    const signal =
      address.signal === undefined ? late.signal : AbortSignal.any([address.signal, late.signal]);
    try {
      return await connect.call(this, { ...address, signal }, ...rest);
    } finally {
      clearInterval(timer);
    }
  };
}
