import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

/**
 * Spreads connections over gateways, as a load balancer of TCP does: one that takes no connection is passed over. Which
 * gateways are ready, it is given.
 */
export interface Balancer {
  add(port: number): void;
  remove(port: number): void;
  close(): void;
}

/** Listens on 127.0.0.1. */
export async function startBalancer(port: number): Promise<Balancer> {
  const ready: number[] = [];
  const sockets = new Set<Socket>();
  let turn = 0;

  async function connectToReady(): Promise<Socket | undefined> {
    turn += 1;
    for (const candidate of ready.map((_, index) => ready[(turn + index) % ready.length] ?? 0)) {
      const socket = connect({ host: "127.0.0.1", port: candidate, noDelay: true, allowHalfOpen: true });
      try {
        await once(socket, "connect");
        return socket;
      } catch {
        socket.destroy();
      }
    }
    return undefined;
  }

  function carry(from: Socket, to: Socket): void {
    sockets.add(from);
    from.once("close", () => sockets.delete(from));
    from.on("error", () => to.resetAndDestroy());
    from.pipe(to);
  }

  const server = createServer(
    { noDelay: true, allowHalfOpen: true, pauseOnConnect: true },
    async (client) => {
      client.on("error", () => undefined);
      const gateway = await connectToReady();
      if (gateway === undefined) return void client.resetAndDestroy();
      carry(client, gateway);
      carry(gateway, client);
    },
  );
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return {
    add: (gateway) => void ready.push(gateway),
    remove(gateway) {
      const index = ready.indexOf(gateway);
      if (index !== -1) ready.splice(index, 1);
    },
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
