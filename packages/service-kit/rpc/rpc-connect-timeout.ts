import { type Connect, connector } from "./grpc-js-internals.ts";

/** The kernel would try for two minutes. */
const TCP_CONNECT_TIMEOUT_MS = 1_000;
/** For TCP, TLS and HTTP/2 settings: a stopped process accepts connections but sends nothing. */
const CONNECT_TIMEOUT_MS = 5_000;

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
