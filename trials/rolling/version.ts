import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

export const ROOT = resolve(import.meta.dirname, "..", "..");

/** A version of the code that can be run. */
export interface Version {
  /** Shown to people. */
  name: string;
  /** The folder with its files and packages. */
  root: string;
}

const git = (...args: string[]) => execFileSync("git", args, { cwd: ROOT, encoding: "utf8" }).trim();

/** Without one: the newest tag of a release. @throws if there is none, or the clone does not have the commit. */
export function findCommit(wanted: string | undefined): string {
  const tag = wanted ?? git("tag", "--list", "v*", "--sort=-version:refname").split("\n")[0];
  if (tag === undefined || tag === "")
    throw new Error(
      "There is no tag of a release. Name a commit: npm run trial -- rolling --against <commit>",
    );
  try {
    return git("rev-parse", "--verify", "--quiet", `${tag}^{commit}`);
  } catch {
    throw new Error(`${tag} is not in this clone. Of a shallow one, get the history: git fetch --unshallow`);
  }
}

/** Puts the files of a commit, and its packages, into a temporary folder, where they stay for the next time. */
export function checkOut(commit: string): Version {
  const name = git("rev-parse", "--short", commit);
  const root = join(tmpdir(), `gatehouse-version-${name}`);
  if (!existsSync(root)) {
    const unfinished = `${root}.${process.pid}`;
    mkdirSync(unfinished);
    try {
      const archive = execFileSync("git", ["archive", commit], { cwd: ROOT, maxBuffer: 2 ** 30 });
      execFileSync("tar", ["x", "-C", unfinished], { input: archive });
      install(unfinished);
      renameSync(unfinished, root);
    } finally {
      rmSync(unfinished, { recursive: true, force: true });
    }
  }
  return { name, root };
}

/** In hard links, where the disk allows it. What is cached there is of one version. */
function install(folder: string): void {
  const lockFile = (root: string) => readFileSync(join(root, "package-lock.json"), "utf8");
  if (lockFile(folder) === lockFile(ROOT)) {
    const [from, to] = [join(ROOT, "node_modules"), join(folder, "node_modules")];
    try {
      execFileSync("cp", ["-al", from, to], { stdio: "ignore" });
    } catch {
      execFileSync("cp", ["-a", from, folder]);
    }
    rmSync(join(to, ".cache"), { recursive: true, force: true });
    return;
  }
  const args = ["ci", "--no-fund", "--no-audit", "--loglevel=error"];
  execFileSync("npm", args, { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
}
