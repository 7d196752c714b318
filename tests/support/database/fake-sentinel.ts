import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";

/** Says of every primary what the test wants. */
export interface FakeSentinel {
  port: number;
  /** A port of loopback. Undefined: it knows no such name. `silent`: it takes connections and answers nothing. */
  says: number | undefined | "silent";
  close(): void;
}

export async function startFakeSentinel(says: FakeSentinel["says"]): Promise<FakeSentinel> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined).on("close", () => sockets.delete(socket));
    let text = "";
    socket.on("data", (piece) => {
      text += piece.toString();
      for (let command = firstOf(text); command !== undefined; command = firstOf(text)) {
        text = text.slice(command.length);
        if (sentinel.says === "silent") continue;
        socket.write(answerTo(command, sentinel.says));
      }
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const sentinel: FakeSentinel = {
    port: (server.address() as AddressInfo).port,
    says,
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
  return sentinel;
}

const isHello = (command: string) => /^\*\d+\r\n\$5\r\nhello\r\n/i.test(command);

/** The first whole command of what has come: `*2`, then a length and a text for each part. */
function firstOf(text: string): string | undefined {
  const [head, count] = /^\*(\d+)\r\n/.exec(text) ?? [];
  if (head === undefined) return undefined;
  const [whole] = new RegExp(`^\\*\\d+\\r\\n(?:\\$\\d+\\r\\n[^\\r]*\\r\\n){${count}}`).exec(text) ?? [];
  return whole;
}

function answerTo(command: string, port: number | undefined): string {
  if (isHello(command)) return "-ERR unknown command 'HELLO'\r\n";
  if (!/\r\nget-master-addr-by-name\r\n/i.test(command)) return "+OK\r\n";
  return port === undefined ? "*-1\r\n" : `*2\r\n$9\r\n127.0.0.1\r\n$${`${port}`.length}\r\n${port}\r\n`;
}
