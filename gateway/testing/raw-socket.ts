import { connect } from "node:net";

const TURN_MS = 10;

/**
 * Sends the bytes on a connection of their own, and reads until it closes or is quiet. Quiet is counted in turns of the event loop, because the
 * gateway is in this process, too: on a busy machine both are late.
 */
export function exchange(
  port: number,
  text: string | Buffer,
  quietMs = 300,
): Promise<{ text: string; closed: boolean }> {
  return new Promise((resolve) => {
    let received = "";
    let turnsLeft = (quietMs + 1_000) / TURN_MS;
    const socket = connect({ port, host: "127.0.0.1" });
    const finish = (closed: boolean) => {
      clearInterval(turns);
      socket.destroy();
      resolve({ text: received, closed });
    };
    const turns = setInterval(() => {
      turnsLeft -= 1;
      if (turnsLeft <= 0) finish(false);
    }, TURN_MS);
    socket.on("connect", () => socket.write(text));
    socket.on("data", (chunk) => {
      received += chunk.toString("latin1");
      turnsLeft = quietMs / TURN_MS;
    });
    socket.on("close", () => finish(true));
    socket.on("error", () => finish(true));
  });
}

export function statuses(text: string): number[] {
  return [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map((match) => Number(match[1]));
}
