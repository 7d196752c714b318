import { spawn } from "node:child_process";
import { once } from "node:events";
import type { User } from "./unprivileged-user.ts";

/** Reads the process id, then a word that all is over. No word, only the end of the pipe: the launcher was killed. */
const SCRIPT = 'read -r pid && { read -r word || kill -INT "$pid"; }';

/** Stops a server when this process ends without a word (`kill -9`). */
export interface PostgresGuard {
  watch(pid: number): void;
  /** The server has ended: the guard does too. */
  dismiss(): Promise<void>;
}

/**
 * Starts the guard: a shell of a few hundred kilobytes at the other end of a pipe.
 *
 * @param user who the server runs as, so that the guard may signal it.
 */
export function startPostgresGuard(user: User | undefined): PostgresGuard {
  // There is no signal to send on Windows; what is left running there is ended by the next start.
  if (process.platform === "win32") return { watch: () => {}, dismiss: async () => {} };
  const shell = spawn("/bin/sh", ["-c", SCRIPT], {
    ...user,
    cwd: "/",
    env: {},
    stdio: ["pipe", "ignore", "ignore"],
    detached: true, // no Ctrl-C either
  });
  const ended = once(shell, "exit").catch(() => {});
  shell.stdin.on("error", () => {}); // it has ended already
  return {
    watch: (pid) => void shell.stdin.write(`${pid}\n`),
    dismiss: async () => {
      shell.stdin.end("ended\n");
      await ended;
    },
  };
}
