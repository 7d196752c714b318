import { writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { until } from "../../support.ts";
import type { Gatehouse } from "./gatehouse.ts";

/** Where Node listens after SIGUSR1. */
const INSPECTOR = "http://127.0.0.1:9229/json/list";
const PATIENCE_MS = 20_000;
const targetsSchema = z.array(z.object({ webSocketDebuggerUrl: z.url() })).min(1);

/** Writes a CPU profile of each service, one after the other, while `work` runs. @returns the files, for a browser's developer tools. */
export async function profileServices(
  system: Gatehouse,
  prefix: string,
  work: () => Promise<unknown>,
): Promise<string[]> {
  const files: string[] = [];
  for (const name of system.services) {
    await using inspector = await Inspector.of(system.pids[name]);
    await inspector.call("Profiler.enable");
    await inspector.call("Profiler.start");
    await work();
    const { profile } = z.object({ profile: z.unknown() }).parse(await inspector.call("Profiler.stop"));
    const file = `${prefix}-${name}.cpuprofile`;
    await writeFile(file, JSON.stringify(profile));
    files.push(file);
  }
  return files;
}

/** The debugger of one process, opened from outside and closed again, because all would use the same port. */
class Inspector implements AsyncDisposable {
  readonly #socket: WebSocket;
  readonly #waiting = new Map<number, (message: { result?: unknown }) => void>();
  #last = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.addEventListener("message", ({ data }) => {
      const message = JSON.parse(String(data)) as { id?: number; result?: unknown };
      this.#waiting.get(message.id ?? 0)?.(message);
    });
  }

  static async of(pid: number): Promise<Inspector> {
    const isOpen = () =>
      fetch(INSPECTOR).then(
        (response) => response.json(),
        () => undefined,
      );
    if ((await isOpen()) !== undefined) throw new Error(`${INSPECTOR} belongs to another process`);
    process.kill(pid, "SIGUSR1");
    const targets = targetsSchema.parse(await until(`the inspector of ${pid}`, isOpen, PATIENCE_MS));
    const socket = new WebSocket(targets[0]?.webSocketDebuggerUrl ?? "");
    await new Promise((resolve, reject) => {
      socket.addEventListener("open", resolve);
      socket.addEventListener("error", () => reject(new Error("the inspector refuses")));
    });
    return new Inspector(socket);
  }

  call(method: string, params: object = {}): Promise<unknown> {
    this.#last += 1;
    const id = this.#last;
    const answered = new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${method}: no answer in time`)), PATIENCE_MS);
      this.#waiting.set(id, ({ result }) => {
        clearTimeout(timer);
        resolve(result);
      });
    });
    this.#socket.send(JSON.stringify({ id, method, params }));
    return answered;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const expression = "setTimeout(() => process.getBuiltinModule('node:inspector').close(), 100), 0";
    await this.call("Runtime.evaluate", { expression });
    this.#socket.close();
    const isClosed = () =>
      fetch(INSPECTOR).then(
        () => false,
        () => true,
      );
    await until("the inspector's end", isClosed, PATIENCE_MS);
    await sleep(100);
  }
}
