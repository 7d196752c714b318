import type { Http2Session } from "node:http2";
import type { Server } from "@grpc/grpc-js";
import { Http2SubchannelConnector } from "@grpc/grpc-js/build/src/transport.js";

/** All private parts of grpc-js that are used. Its version is pinned; the tests of this file fail if a part is missing. */

/** The channel's options are the last parameter. The address is passed to `net.connect`. */
export type Connect = (
  this: unknown,
  address: { signal?: AbortSignal },
  ...rest: unknown[]
) => Promise<unknown>;

/** Of all channels. `connect` includes TLS and the settings of HTTP/2. */
export const connector = Http2SubchannelConnector.prototype as unknown as Record<
  "connect" | "tcpConnect",
  Connect
>;

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

/** Of a client's method: `gatehouse.token.v1.TokenService/VerifyToken`. */
export function pathOf(method: object): string {
  return "path" in method && typeof method.path === "string" ? method.path.slice(1) : "rpc";
}
