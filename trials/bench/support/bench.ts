import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Version } from "../../rolling/version.ts";
import { Gatehouse } from "./gatehouse.ts";
import { type IdentityPeers, startIdentityPeers } from "./identity-peers.ts";

/** What the figures share. Everything that they start ends with it. */
export class Bench {
  readonly folder: string;
  readonly upstreamPort: number;
  readonly versions: readonly Version[];
  /** Whether identity servers are measured as well. */
  readonly hasPeers: boolean;
  readonly #ends: (() => Promise<unknown>)[] = [];
  #systems: Promise<readonly Gatehouse[]> | undefined;
  #peers: Promise<IdentityPeers> | undefined;

  private constructor(parts: Pick<Bench, "folder" | "upstreamPort" | "versions" | "hasPeers">) {
    this.folder = parts.folder;
    this.upstreamPort = parts.upstreamPort;
    this.versions = parts.versions;
    this.hasPeers = parts.hasPeers;
  }

  static async open(versions: readonly Version[], hasPeers: boolean): Promise<Bench> {
    const folder = await mkdtemp(join(tmpdir(), "gatehouse-bench-"));
    const { child, port: upstreamPort } = await forkServer("load.ts", "upstream");
    const bench = new Bench({ folder, upstreamPort, versions, hasPeers });
    bench.atEnd(() => rm(folder, { recursive: true, force: true }));
    bench.atEnd(() => endChild(child));
    return bench;
  }

  /** One of each version, for all figures that need nothing else. */
  systems(): Promise<readonly Gatehouse[]> {
    this.#systems ??= this.#start();
    return this.#systems;
  }

  /** None without `--peers`. They start once for all figures, because some take minutes. */
  identityPeers(): Promise<IdentityPeers> {
    this.#peers ??= this.hasPeers ? startIdentityPeers(this) : Promise.resolve({ running: [], missing: [] });
    return this.#peers;
  }

  async #start(): Promise<readonly Gatehouse[]> {
    const systems: Gatehouse[] = [];
    for (const version of this.versions) {
      const system = await Gatehouse.start(version, { upstreamPort: this.upstreamPort });
      this.atEnd(() => system.remove());
      systems.push(system);
    }
    return systems;
  }

  /** The last first. */
  atEnd(end: () => Promise<unknown>): void {
    this.#ends.unshift(end);
  }

  async close(): Promise<void> {
    for (const end of this.#ends.splice(0)) await end().catch((error: unknown) => console.error(error));
  }
}

/** A program of this folder that sends the port on which it listens. It ends with this process. */
export async function forkServer(
  file: string,
  ...args: string[]
): Promise<{ child: ChildProcess; port: number }> {
  const child = fork(join(import.meta.dirname, file), args);
  const [port] = (await once(child, "message")) as [number];
  return { child, port };
}

export async function endChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill();
  await ended;
}
