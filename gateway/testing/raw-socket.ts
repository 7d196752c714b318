import { connect } from "node:net";

/**
 * Sends bytes to a port of this machine and gives back everything that came until the connection closed, or
 * until `quietMs` passed without a byte. For tests of what no HTTP client would send.
 */
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

/** The statuses of the answers in what came back. */
export function statuses(text: string): number[] {
  return [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map((match) => Number(match[1]));
}
