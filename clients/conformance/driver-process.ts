import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface, type Interface } from "node:readline";
import { text } from "node:stream/consumers";
import { type Door, grpcDoor, httpDoor } from "./doors.ts";

export type DoorName = "http" | "grpc";

export interface DriverProcess {
  door: Door;
  /** Moves the wall clock that the package reads, and leaves its monotonic clock alone. */
  jump(ms: number): Promise<void>;
  /** @returns what it wrote to standard error. */
  stop(): Promise<string>;
}

/** @param environment as README.md says. @throws if the driver does not say within a minute where it listens. */
export async function startDriver(
  [program = "", ...args]: readonly string[],
  doorName: DoorName,
  environment: Readonly<Record<string, string>>,
): Promise<DriverProcess> {
  const child = spawn(program, args, {
    env: { PATH: process.env.PATH ?? "", HOME: process.env.HOME ?? "", ...environment },
    stdio: ["pipe", "pipe", "pipe"],
  });
  const exited = once(child, "exit");
  child.stderr.pipe(process.stderr, { end: false });
  const complaints = text(child.stderr);
  const lines = createInterface({ input: child.stdout });
  const addresses = JSON.parse(await nextLine(lines, child)) as Partial<Record<DoorName, string>>;
  const address = addresses[doorName] ?? "";
  const door = doorName === "http" ? httpDoor(address) : grpcDoor(address);
  return {
    door,
    async jump(ms) {
      child.stdin.write(`jump ${ms}\n`);
      const said = await nextLine(lines, child);
      if (said !== "jumped") throw new Error(`the driver answered ${said}`);
    },
    async stop() {
      door.close();
      child.stdin.end();
      const kill = setTimeout(() => child.kill("SIGKILL"), 30_000);
      await exited;
      clearTimeout(kill);
      return complaints;
    },
  };
}

async function nextLine(lines: Interface, child: ChildProcess): Promise<string> {
  const waiting = new AbortController();
  const signal = AbortSignal.any([waiting.signal, AbortSignal.timeout(60_000)]);
  try {
    const line = once(lines, "line", { signal }).then(([text]) => String(text));
    const end = once(child, "exit", { signal }).then(([code]) => {
      throw new Error(`the driver ended with ${code}`);
    });
    return await Promise.race([line, end]);
  } finally {
    waiting.abort();
  }
}
