import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Subject } from "../figures/figure.ts";
import { IDENTITIES } from "../peers/identities.ts";
import type { IdentityCalls, RunningPeer } from "../peers/peer.ts";
import type { Bench } from "./bench.ts";
import { cpuUs } from "./processes.ts";
import { runMany } from "./workbench.ts";

const USERS = 64;
const SETTLE_MS = 400;
const US_OF_MS = 1_000;

export interface IdentityPeers {
  running: readonly (RunningPeer & IdentityCalls & { name: string })[];
  /** Sentences about those that are not installed. */
  missing: readonly string[];
}

/** Each has checked itself. They end with the bench. */
export async function startIdentityPeers(bench: Bench): Promise<IdentityPeers> {
  const running: IdentityPeers["running"][number][] = [];
  for (const [index, peer] of IDENTITIES.entries()) {
    if (peer.missing() !== undefined) continue;
    const folder = join(bench.folder, `identity-${index}`);
    await mkdir(folder, { mode: 0o700 });
    console.error(`  starting ${peer.name}`);
    const started = await peer.start({ folder, users: USERS });
    bench.atEnd(() => started.stop());
    running.push({ ...started, name: peer.name });
  }
  return { running, missing: IDENTITIES.flatMap((peer) => peer.missing() ?? []) };
}

/** CPU of each peer for one of its calls, its database included, in milliseconds. */
export async function identityReferences(
  bench: Bench,
  kind: keyof IdentityCalls,
  load: { calls: number; inParallel: number },
): Promise<{ references: Subject[]; missing: readonly string[] }> {
  const { running, missing } = await bench.identityPeers();
  const references: Subject[] = [];
  for (const peer of running) {
    const ask = peer[kind];
    if (ask === undefined) continue;
    const total = async () => {
      await sleep(SETTLE_MS);
      return peer.processes().reduce((sum, pid) => sum + cpuUs(pid), 0);
    };
    const sample = async () => {
      const before = await total();
      await send(ask, load.calls, load.inParallel);
      return { values: { "": ((await total()) - before) / load.calls / US_OF_MS } };
    };
    references.push({ name: peer.name, isOurs: false, sample });
  }
  return { references, missing };
}

/** Those of one user follow one another. */
function send(
  ask: NonNullable<IdentityCalls[keyof IdentityCalls]>,
  calls: number,
  inParallel: number,
): Promise<unknown> {
  const eachUsers = USERS / inParallel;
  return runMany(inParallel, inParallel, async (place) => {
    for (let index = 0; index < calls / inParallel; index += 1)
      await ask((place - 1) * eachUsers + (index % eachUsers));
  });
}
