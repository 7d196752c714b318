import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { chown, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { vi } from "vitest";
import { NOBODY } from "#deploy/local/postgres/embedded-postgres.ts";
import { freePort } from "../system/free-port.ts";

const SETTINGS = resolve(import.meta.dirname, "..", "..", "..", "deploy/high-availability/pgbouncer.ini");
const START_TIMEOUT_MS = 60_000;
const program = [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin"]
  .map((folder) => join(folder, "pgbouncer"))
  .find((path) => existsSync(path));
if (program === undefined) process.stdout.write("PgBouncer skipped: `apt-get install pgbouncer`\n");

export const hasPgbouncer = program !== undefined;

export interface Pgbouncer {
  /** Of the same role and database, through PgBouncer. */
  url: string;
  stop(): Promise<void>;
}

/**
 * Runs PgBouncer in front of a server, for one role, with the settings that `deploy/` has for it.
 *
 * @param changed lines that replace some of them.
 */
export async function startPgbouncer(
  target: { url: string; password: string },
  changed: readonly string[] = [],
): Promise<Pgbouncer> {
  const url = new URL(target.url);
  const { hostname, port, username } = url;
  url.port = String(await freePort());
  const folder = await mkdtemp(join(tmpdir(), "gatehouse-pgbouncer-"));
  const [users, own] = ["users.txt", "pgbouncer.ini"].map((name) => join(folder, name)) as [string, string];
  await writeFile(users, `"${username}" "${target.password}"\n`);
  const lines = [
    `[databases]\n* = host=${hostname} port=${port}`,
    await readFile(SETTINGS, "utf8"),
    `listen_addr = 127.0.0.1\nlisten_port = ${url.port}\nunix_socket_dir =\nauth_file = ${users}`,
    ...changed,
  ];
  await writeFile(own, `${lines.join("\n")}\n`);
  // PgBouncer does not run as root.
  const user = process.getuid?.() === 0 ? NOBODY : undefined;
  if (user !== undefined) for (const path of [folder, users, own]) await chown(path, user.uid, user.gid);
  const child = spawn(program ?? "", [own], { ...user, stdio: "ignore" });
  const ended = once(child, "exit");
  const stop = async () => {
    child.kill("SIGKILL");
    await ended;
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await vi.waitUntil(() => isListening(Number(url.port)), { timeout: START_TIMEOUT_MS });
  } catch (error) {
    await stop();
    throw error;
  }
  return { url: url.href, stop };
}

async function isListening(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  const isOpen = await once(socket, "connect").then(
    () => true,
    () => false,
  );
  socket.destroy();
  return isOpen;
}
