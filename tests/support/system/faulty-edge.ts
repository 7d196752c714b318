import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * What a TCP edge does. `open`: everything passes. `refused`: nobody listens, open connections are reset. `silent`: connections
 * are taken and stay, and nothing passes, as when a host is gone without a word. `slow`: each piece comes late.
 * A port: new connections lead there instead, and open ones are reset. `silentFor`: `silent` for addresses that begin so.
 */
export type EdgeState = "open" | "refused" | "silent" | "slow" | { port: number } | { silentFor: string };

/** A registration takes about thirty statements, and a transaction has 3 s, also on a busy machine. */
const SLOW_MS = 20;

/** A way to a server on loopback that can be disturbed. */
export interface FaultyEdge {
  port: number;
  set(state: EdgeState): Promise<void>;
  close(): Promise<void>;
}

const isElsewhere = (state: EdgeState) => typeof state === "object" && "port" in state;

function isSilent(state: EdgeState, client: string): boolean {
  if (typeof state !== "object") return state === "silent";
  return "silentFor" in state && client.startsWith(state.silentFor);
}

/** @param port where the edge listens; 0: a free one. */
export async function openEdge(target: number, port = 0): Promise<FaultyEdge> {
  let state: EdgeState = "open";
  let server: Server | undefined;
  const sockets = new Set<Socket>();

  function admit(socket: Socket): void {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket)).on("error", () => undefined);
  }
  function take(client: Socket): void {
    const onward = connect({ host: "127.0.0.1", port: isElsewhere(state) ? state.port : target });
    const { remoteAddress = "" } = client;
    for (const socket of [client, onward]) admit(socket);
    void carry(client, onward, remoteAddress);
    void carry(onward, client, remoteAddress);
  }
  async function carry(from: Socket, to: Socket, client: string): Promise<void> {
    try {
      for await (const piece of from) {
        while (isSilent(state, client)) await sleep(SLOW_MS);
        if (state === "slow") await sleep(SLOW_MS);
        if (!to.write(piece)) await once(to, "drain");
      }
      to.end();
    } catch {
      to.resetAndDestroy();
    }
  }
  async function listen(at: number): Promise<number> {
    server = createServer({ noDelay: true }, take).listen({ host: "127.0.0.1", port: at });
    await once(server, "listening");
    return (server.address() as AddressInfo).port;
  }
  function resetAll(): void {
    for (const socket of sockets) socket.resetAndDestroy();
  }
  async function endAll(): Promise<void> {
    server?.close();
    server = undefined;
    resetAll();
  }

  const own = await listen(port);
  return {
    port: own,
    async set(next) {
      const isReset = next === "refused" || isElsewhere(next) || isElsewhere(state);
      state = next;
      if (next === "refused") await endAll();
      else if (isReset) resetAll();
      if (next !== "refused" && server === undefined) await listen(own);
    },
    close: endAll,
  };
}
