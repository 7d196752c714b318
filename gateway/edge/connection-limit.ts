import type { Server } from "node:http";
import type { Socket } from "node:net";
import { networksOf } from "#kit/values/network-of.ts";
import type { IsTrustedProxy } from "./request/trusted-proxies.ts";

export interface ConnectionLimits {
  total: number;
  /** Per IPv4 address or IPv6 /64; a /56 has 4 times, a /48 16 times as many. Trusted proxies are exempt. */
  perAddress: number;
}

/** A network may use at most the remaining capacity, so that others keep a share. */
export function limitConnections(
  server: Server,
  { total, perAddress }: ConnectionLimits,
  isTrustedProxy: IsTrustedProxy,
): void {
  const open = new Map<string, number>();
  let all = 0;
  server.maxConnections = total;
  // Runs before Node's own listener, which begins to read.
  server.prependListener("connection", (socket: Socket) => {
    const { remoteAddress } = socket;
    if (remoteAddress === undefined) return;
    const networks = isTrustedProxy(remoteAddress) ? [] : networksOf(remoteAddress);
    const free = Math.max(total - all, 1);
    if (networks.some(({ name, times }) => (open.get(name) ?? 0) >= Math.min(perAddress * times, free))) {
      socket.destroy();
      return;
    }
    all += 1;
    for (const { name } of networks) open.set(name, (open.get(name) ?? 0) + 1);
    socket.once("close", () => {
      all -= 1;
      for (const { name } of networks) {
        const left = (open.get(name) ?? 1) - 1;
        if (left === 0) open.delete(name);
        else open.set(name, left);
      }
    });
  });
}
