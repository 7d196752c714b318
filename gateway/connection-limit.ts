import type { Server } from "node:http";
import type { Socket } from "node:net";
import { networkOf } from "../service-kit/network-of.ts";
import type { IsTrustedProxy } from "./trusted-proxies.ts";

export interface ConnectionLimits {
  /** Open connections in all. */
  total: number;
  /** Open connections of one address (IPv6: one /64). Proxies of ours have no limit: many clients are behind one. */
  perAddress: number;
}

/** Closes connections beyond the limits at once, before a byte of them is read. */
export function limitConnections(
  server: Server,
  { total, perAddress }: ConnectionLimits,
  isTrustedProxy: IsTrustedProxy,
): void {
  const open = new Map<string, number>();
  server.maxConnections = total;
  // Ahead of Node's own listener, which begins to read.
  server.prependListener("connection", (socket: Socket) => {
    const { remoteAddress } = socket;
    if (remoteAddress === undefined || isTrustedProxy(remoteAddress)) return;
    const network = networkOf(remoteAddress);
    const count = (open.get(network) ?? 0) + 1;
    if (count > perAddress) {
      socket.destroy();
      return;
    }
    open.set(network, count);
    socket.once("close", () => {
      const left = (open.get(network) ?? 1) - 1;
      if (left === 0) open.delete(network);
      else open.set(network, left);
    });
  });
}
