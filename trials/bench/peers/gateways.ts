import { endChild, forkServer } from "../support/bench.ts";
import type { GatewayPeer } from "./peer.ts";

export const GATEWAYS: readonly GatewayPeer[] = [
  {
    name: "@fastify/http-proxy",
    does: "nothing",
    checksTokens: false,
    missing: () => undefined,
    async start({ upstreamPort }) {
      const upstream = `http://127.0.0.1:${upstreamPort}`;
      const { child, port } = await forkServer("proxies.ts", "library", upstream);
      const processes = () => [child.pid ?? 0];
      return { url: `http://127.0.0.1:${port}`, processes, stop: () => endChild(child) };
    },
  },
];
