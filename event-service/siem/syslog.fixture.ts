import { once } from "node:events";
import type { AddressInfo, Socket } from "node:net";
import { createServer, type TLSSocket, type TlsOptions } from "node:tls";
import type { WholeEntry } from "../stream/audit-log-client.ts";

/** What a receiver does with a connection. */
export type Behaviour = (socket: TLSSocket, connection: number) => void;

const BOM = "\u{feff}";

/** A receiver of syslog over TLS. It keeps the whole messages that it has read, and ends a connection when the sender does. */
export async function startSyslogReceiver(tls: TlsOptions) {
  const messages: string[] = [];
  const sockets = new Set<TLSSocket>();
  const raw = new Map<number | undefined, Socket>();
  const state: { connections: number; ended: number; behaviour: Behaviour } = {
    connections: 0,
    ended: 0,
    behaviour: reads,
  };
  const server = createServer(tls, (socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.on("close", () => sockets.delete(socket));
    socket.on("end", () => {
      state.ended += 1;
    });
    state.connections += 1;
    state.behaviour(socket, state.connections);
  });
  server.on("connection", (socket: Socket) => raw.set(socket.remotePort, socket));
  server.on("tlsClientError", () => undefined);
  function reads(socket: TLSSocket) {
    let rest = Buffer.alloc(0);
    socket.on("data", (chunk: Buffer) => {
      rest = Buffer.concat([rest, chunk]);
      for (;;) {
        const space = rest.indexOf(" ");
        const end = space + 1 + Number(rest.toString("latin1", 0, space));
        if (space < 0 || rest.length < end) return;
        messages.push(rest.toString("utf8", space + 1, end));
        rest = rest.subarray(end);
      }
    });
  }
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    messages,
    state,
    get entries() {
      return messages.map((message) => JSON.parse(message.slice(message.indexOf(BOM) + 1)) as WholeEntry);
    },
    /** Unless told otherwise. */
    reads,
    behave(behaviour: Behaviour = reads) {
      state.behaviour = behaviour;
    },
    reset: (socket: TLSSocket) => raw.get(socket.remotePort)?.resetAndDestroy(),
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

export type SyslogReceiver = Awaited<ReturnType<typeof startSyslogReceiver>>;
