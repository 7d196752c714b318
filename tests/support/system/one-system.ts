import { Agent, getGlobalDispatcher, setGlobalDispatcher } from "undici";
import { afterAll, beforeAll, describe } from "vitest";
import { type System, type SystemOptions, startSystem } from "./system.ts";

let running: System | undefined;
let lastNetwork = 1;
let network = "";

/** The system that the flows of the present test file share. */
export function oneSystem(): System {
  if (running === undefined) throw new Error("no system is shared here");
  return running;
}

/** The address from which the present flow calls. */
export const ownAddress = (): string => network;

export interface SharedSystem {
  /** For all flows: settings that a flow needs must not disturb another one. */
  environment?: () => Promise<Record<string, string>>;
  files?: () => Promise<NonNullable<SystemOptions["files"]>>;
  /** By name, in their order. Each module defines its tests when it is imported. */
  flows: Record<string, () => Promise<unknown>>;
}

/**
 * Runs flows one after the other on one system: each start takes ten seconds of CPU time. A flow that changes what all
 * the others need stands last.
 */
export function flowsOnOneSystem({ environment, files, flows }: SharedSystem): void {
  beforeAll(async () => {
    const home = await files?.();
    running = await startSystem({
      environment: (await environment?.()) ?? {},
      ...(home !== undefined && { files: home }),
    });
  });
  afterAll(async () => {
    await running?.remove();
    running = undefined;
  });
  for (const [name, load] of Object.entries(flows)) {
    describe(name, async () => {
      callFromOwnAddress();
      await load();
    });
  }
}

/** Each flow is a network of its own, so that none uses up the limits of another. Where there is one address, all share it. */
function callFromOwnAddress(): void {
  const shared = getGlobalDispatcher();
  let own: Agent | undefined;
  beforeAll(() => {
    network = "127.0.0.1";
    if (process.platform !== "linux") return;
    lastNetwork += 1;
    network = `127.0.1.${lastNetwork}`;
    own = new Agent({ localAddress: network, connect: { family: 4 } });
    setGlobalDispatcher(own);
  });
  afterAll(async () => {
    setGlobalDispatcher(shared);
    await own?.destroy();
  });
}
