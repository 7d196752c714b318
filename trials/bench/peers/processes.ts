import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { connect, type NetConnectOpts } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const START_MS = 20_000;
const STOP_MS = 5_000;
const POLL_MS = 50;

export interface Program {
  command: string;
  args: readonly string[];
  /** What answers once it is ready. */
  listensAt: NetConnectOpts;
  env?: Readonly<Record<string, string>>;
}

/**
 * Starts programs one after the other, each when the one before it listens. Their output goes to files in `folder`.
 *
 * @throws an error with the output of a program that ends or does not listen within 20 s; the others are stopped.
 */
export async function startPrograms(folder: string, programs: readonly Program[]) {
  const children: ChildProcess[] = [];
  const stop = async () => void (await Promise.all(children.map(stopProgram)));
  try {
    for (const [index, program] of programs.entries()) {
      const outputFile = join(folder, `output-${index}.log`);
      const child = spawnInto(outputFile, program);
      children.push(child);
      await listening(child, program, outputFile);
    }
  } catch (error) {
    await stop();
    throw error;
  }
  return { processes: () => children.flatMap(({ pid }) => (pid === undefined ? [] : familyOf(pid))), stop };
}

function spawnInto(outputFile: string, { command, args, env }: Program): ChildProcess {
  const output = openSync(outputFile, "w");
  const child = spawn(command, args, {
    stdio: ["ignore", output, output],
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
  });
  closeSync(output);
  const kill = () => child.kill("SIGKILL");
  process.once("exit", kill);
  child.once("exit", () => process.off("exit", kill));
  return child;
}

async function listening(child: ChildProcess, { command, listensAt }: Program, outputFile: string) {
  let failure: Error | undefined;
  child.once("error", (error) => (failure = error));
  const deadline = Date.now() + START_MS;
  while (Date.now() < deadline && child.exitCode === null && failure === undefined) {
    if (await accepts(listensAt)) return;
    await sleep(POLL_MS);
  }
  const output = readFileSync(outputFile, "utf8").slice(-2_000);
  throw new Error(`${command} does not listen at ${JSON.stringify(listensAt)}:\n${output}`, {
    cause: failure,
  });
}

async function accepts(address: NetConnectOpts): Promise<boolean> {
  const socket = connect(address);
  try {
    await once(socket, "connect", { signal: AbortSignal.timeout(1_000) });
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

async function stopProgram(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill("SIGTERM");
  const forced = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
  await exited;
  clearTimeout(forced);
}

/** A process and its descendants, as far as they still run. */
function familyOf(pid: number): number[] {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean);
    return [pid, ...children.flatMap((child) => familyOf(Number(child)))];
  } catch {
    return [];
  }
}
