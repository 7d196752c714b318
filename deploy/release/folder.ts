import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "./run.ts";

export interface Release {
  root: string;
  /** Where the parts go. */
  folder: string;
  version: string;
  /** The commit. */
  revision: string;
  /** When it was made, in seconds. */
  epochS: number;
}

/** The name of a file of the release is made of it. */
export const nameOf = ({ version }: Release, rest: string) => `gatehouse-${version}-${rest}`;

/** All of a folder, or an entry of it, as a file of the release, with the same bytes for the same files. */
export async function pack(
  { folder, epochS }: Release,
  from: string,
  name: string,
  entry = ".",
): Promise<void> {
  const same = [
    "--sort=name",
    "--numeric-owner",
    "--owner=0",
    "--group=0",
    `--mtime=@${epochS}`,
    "--mode=u+rw,go=rX",
  ];
  const compression = name.endsWith(".tgz") ? ["--use-compress-program=gzip -n"] : [];
  await run("tar", ["-C", from, ...same, ...compression, "-cf", join(folder, name), entry]);
}

/** In a temporary folder, which is gone afterwards. */
export async function inFolder(work: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "gatehouse-release-"));
  try {
    await work(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}
