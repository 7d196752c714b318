import { connect } from "node:net";

/** Sends bytes and returns all received ones until the connection closes, or is silent for `quietMs`. */
export function exchange(
  port: number,
  text: string | Buffer,
  quietMs = 300,
): Promise<{ text: string; closed: boolean }> {
  return new Promise((resolve) => {
    let received = "";
    const socket = connect({ port, host: "127.0.0.1" });
    const finish = (closed: boolean) => {
      clearTimeout(quiet);
      socket.destroy();
      resolve({ text: received, closed });
    };
    let quiet = setTimeout(() => finish(false), quietMs + 1_000);
    socket.on("connect", () => socket.write(text));
    socket.on("data", (chunk) => {
      received += chunk.toString("latin1");
      clearTimeout(quiet);
      quiet = setTimeout(() => finish(false), quietMs);
    });
    socket.on("close", () => finish(true));
    socket.on("error", () => finish(true));
  });
}

export function statuses(text: string): number[] {
  return [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map((match) => Number(match[1]));
}
