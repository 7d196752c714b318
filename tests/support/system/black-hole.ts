import { fork } from "node:child_process";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { fileURLToPath } from "node:url";

/** The process is deaf to the end of its parent. */
const MAX_LIFE_MS = 90_000;

/**
 * An address from which nothing answers, not even to a TCP connect: a process listens there with the shortest queue,
 * takes nothing from it, and the queue is full. (Linux then drops further attempts.)
 */
export async function openBlackHole(host: string, port: number): Promise<{ close(): Promise<void> }> {
  const child = fork(fileURLToPath(import.meta.url), [host, String(port)]);
  await once(child, "message");
  child.unref();
  child.channel?.unref();
  const fillers: Socket[] = [];
  for (let index = 0; index < 4; index += 1) {
    fillers.push(connect({ host, port }).on("error", () => undefined));
  }
  await new Promise((resolve) => setTimeout(resolve, 200));
  return {
    async close() {
      if (child.exitCode === null && child.signalCode === null) {
        const gone = once(child, "exit");
        child.ref();
        child.kill("SIGKILL");
        await gone;
      }
      for (const filler of fillers) filler.destroy();
    },
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { createServer } = await import("node:net");
  const hold = () => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, MAX_LIFE_MS);
    process.exit(0);
  };
  const [, , host, port] = process.argv;
  createServer().listen({ host, port: Number(port), backlog: 1 }, () => {
    process.send?.("listening", () => hold());
  });
}
