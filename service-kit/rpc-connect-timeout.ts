import { Http2SubchannelConnector } from "@grpc/grpc-js/build/src/transport.js";

/** A replica that lives answers a TCP connect in milliseconds. Without a limit of its own the kernel tries for two minutes. */
const TCP_CONNECT_TIMEOUT_MS = 1_000;
/** TCP, TLS and the first frames of HTTP/2 together: a process that was stopped accepts connections and says nothing. */
const CONNECT_TIMEOUT_MS = 5_000;

interface SocketAddress {
  signal?: AbortSignal;
}
type Connect = (this: unknown, address: SocketAddress, ...rest: unknown[]) => Promise<unknown>;

/**
 * Once in a process, before the first client: gives grpc-js a limit to the time that a connection takes to be made; it has none, and no option for one. It passes
 * an address to `net.connect` as it is, so the limit travels with the address as a signal. The version is pinned, and
 * `tests/replicas.test.ts` fails if this has no effect any more.
 */
export function limitConnectTime(): void {
  const connector = Http2SubchannelConnector.prototype as unknown as Record<
    "connect" | "tcpConnect",
    Connect
  >;
  connector.connect = limited(connector.connect, CONNECT_TIMEOUT_MS);
  connector.tcpConnect = limited(connector.tcpConnect, TCP_CONNECT_TIMEOUT_MS);
}

function limited(connect: Connect, timeoutMs: number): Connect {
  return async function (address, ...rest) {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), timeoutMs);
    const signal =
      address.signal === undefined ? late.signal : AbortSignal.any([address.signal, late.signal]);
    try {
      return await connect.call(this, { ...address, signal }, ...rest);
    } finally {
      clearTimeout(timer);
    }
  };
}
