import { readFile } from "node:fs/promises";
import { LaunchError } from "../launch-error.ts";

/** Who a process runs as. */
export interface User {
  uid: number;
  gid: number;
}

const NAMES = ["postgres", "nobody"];

/** True if this process is root, whom PostgreSQL refuses to run as. */
export function isRoot(): boolean {
  return process.getuid?.() === 0;
}

/**
 * The unprivileged user PostgreSQL runs as when this process is root: `postgres` where there is one, else `nobody`.
 *
 * @throws {LaunchError} on systems where running as root is not supported, or without such a user.
 */
export async function unprivilegedUser(): Promise<User> {
  if (process.platform !== "linux") {
    throw new LaunchError(
      "PostgreSQL does not run as root, and only on Linux can Gatehouse help it: use another user.",
    );
  }
  const lines = (await readFile("/etc/passwd", "utf8")).split("\n").map((line) => line.split(":"));
  for (const name of NAMES) {
    const [, , uid, gid] = lines.find(([login]) => login === name) ?? [];
    if (Number(uid) > 0 && Number(gid) > 0) return { uid: Number(uid), gid: Number(gid) };
  }
  throw new LaunchError(
    `PostgreSQL does not run as root, and /etc/passwd has no user ${NAMES.join(" or ")}.`,
  );
}
