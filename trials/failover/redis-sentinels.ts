import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Redis } from "ioredis";
import { launch } from "#tests/support/database/redis.ts";
import { type FaultyEdge, openEdge } from "#tests/support/system/faulty-edge.ts";
import { freePort } from "#tests/support/system/free-port.ts";
import { until } from "../support.ts";

const CONFIGURATION = resolve(import.meta.dirname, "..", "..", "deploy", "high-availability");
const NAMES = ["a", "b", "c"] as const;
/** Stands in the line `sentinel monitor` in sentinel.conf. */
const PRIMARY_NAME = "gatehouse";
/** Of sentinel.conf. */
const DOWN_AFTER_MS = 5_000;
const HELD_MS = 3_600_000;
/** The source of what servers and sentinels say to each other: so that they can be cut off from each other alone. */
const PEERS = "127.0.7.";

interface Startable {
  /** `kill -9`. */
  kill(): Promise<void>;
  /** After `kill`, with the configuration that the sentinels have written. */
  start(): Promise<void>;
}

export interface SentinelNode extends Startable {
  name: (typeof NAMES)[number];
  /** Where everybody reaches it: over an edge that can be cut. */
  port: number;
  /** `SIGSTOP`: its kernel still takes connections. */
  freeze(): void;
  thaw(): void;
  /** Nothing passes from or to the server; connections stay. */
  cut(): Promise<void>;
  /** Servers and sentinels do not reach it; clients do. */
  cutFromPeers(): Promise<void>;
  mend(): Promise<void>;
  /** Asks the server itself, past its edge. */
  ask(...command: [string, ...string[]]): Promise<unknown>;
}

/** Three Redis and three sentinels with the files of `deploy/high-availability/`. */
export interface RedisSentinels {
  url: string;
  /** A second way to the sentinels, which can be cut. */
  otherWay: { url: string; set(state: "open" | "silent"): Promise<void> };
  nodes: readonly SentinelNode[];
  /** That two of the sentinels name. */
  primary(): Promise<SentinelNode | undefined>;
  /** Resolves when another node than `old` is named, with the time by `performance.now()`. */
  elected(old: SentinelNode): Promise<{ node: SentinelNode; atMs: number }>;
  /** No primary counts as dead, however long it is, until this is called with `false`. */
  hold(isHeld: boolean): Promise<void>;
  /** Kills two of the three. @returns what starts them again. */
  killMostSentinels(): Promise<() => Promise<void>>;
  /** Until the sentinels agree on a primary that has two replicas in step. */
  whole(): Promise<SentinelNode>;
  remove(): Promise<void>;
}

export interface SentinelOptions {
  /** Instead of those of sentinel.conf. */
  downAfterMs?: number;
}

export async function startRedisSentinels(
  program: string,
  options: SentinelOptions = {},
): Promise<RedisSentinels> {
  const folder = await mkdtemp(join(tmpdir(), "gatehouse-sentinels-"));
  const ports = await Promise.all(NAMES.map(freePort));
  const edges = await Promise.all(ports.map((port) => openEdge(port)));
  const primaryPort = edges[0]?.port ?? 0;
  const nodes: StartedNode[] = [];
  for (const [index, name] of NAMES.entries()) {
    const [port, edge] = [ports[index] as number, edges[index] as FaultyEdge];
    nodes.push(await startNode({ program, folder, index, name, port, edge, primaryPort }));
  }
  const sentinelPorts = await Promise.all(NAMES.map(freePort));
  const sentinels = await Promise.all(
    sentinelPorts.map((port, index) =>
      startSentinel({ program, folder, index, port, primaryPort, ...options }),
    ),
  );
  const ways = await Promise.all(sentinelPorts.map((port) => openEdge(port)));
  const clients = sentinelPorts.map(client);
  const urlOf = (all: number[]) =>
    `redis+sentinel://${all.map((port) => `127.0.0.1:${port}`).join(",")}/${PRIMARY_NAME}`;

  async function primary(): Promise<SentinelNode | undefined> {
    const named = await Promise.all(
      clients.map(async (sentinel) => {
        const answer = await sentinel
          .call("SENTINEL", "get-master-addr-by-name", PRIMARY_NAME)
          .catch(() => undefined);
        return Array.isArray(answer) ? Number(answer[1]) : undefined;
      }),
    );
    return nodes.find(({ port }) => named.filter((one) => one === port).length > clients.length / 2);
  }
  async function inStep(): Promise<SentinelNode | undefined> {
    const node = await primary();
    if (node === undefined) return undefined;
    const role = await node.ask("ROLE").catch(() => undefined);
    const replicas = Array.isArray(role) && role[0] === "master" ? (role[2] as unknown[]).length : 0;
    if (replicas < nodes.length - 1) return undefined;
    const others = await Promise.all(
      nodes.filter((other) => other !== node).map((other) => other.ask("ROLE").catch(() => undefined)),
    );
    const areConnected = others.every((other) => Array.isArray(other) && other[3] === "connected");
    const known = await Promise.all(
      clients.map((sentinel) => sentinel.call("SENTINEL", "MASTER", PRIMARY_NAME).catch(() => [])),
    );
    const areAgreed = known.every((found) => isHealthy(found));
    return areConnected && areAgreed ? node : undefined;
  }
  return {
    url: urlOf(sentinelPorts),
    otherWay: {
      url: urlOf(ways.map(({ port }) => port)),
      async set(state) {
        await Promise.all(ways.map((way) => way.set(state)));
      },
    },
    nodes,
    primary,
    async elected(old) {
      return until("another primary", async () => {
        const node = await primary();
        return node === undefined || node === old ? undefined : { node, atMs: performance.now() };
      });
    },
    hold: (isHeld) => setDownAfter(clients, isHeld ? HELD_MS : (options.downAfterMs ?? DOWN_AFTER_MS)),
    killMostSentinels: () => killed(sentinels.slice(1)),
    whole: () => until("a primary with two replicas", inStep),
    async remove() {
      for (const one of clients) one.disconnect();
      await Promise.all([
        ...sentinels.map((sentinel) => sentinel.kill()),
        ...nodes.map((node) => node.end()),
      ]);
      await Promise.all([...edges, ...ways].map((edge) => edge.close()));
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function setDownAfter(sentinels: readonly Redis[], afterMs: number): Promise<void> {
  const given = ["SET", PRIMARY_NAME, "down-after-milliseconds", `${afterMs}`];
  await Promise.all(sentinels.map((sentinel) => sentinel.call("SENTINEL", ...given)));
}

async function killed(sentinels: readonly Startable[]): Promise<() => Promise<void>> {
  await Promise.all(sentinels.map((sentinel) => sentinel.kill()));
  return async () => {
    await Promise.all(sentinels.map((sentinel) => sentinel.start()));
  };
}

/** A sentinel that can elect: it knows the primary as sound, both replicas and both other sentinels. */
function isHealthy(answer: unknown): boolean {
  if (!Array.isArray(answer)) return false;
  const fields = new Map<unknown, unknown>();
  for (let at = 0; at < answer.length; at += 2) fields.set(answer[at], answer[at + 1]);
  return (
    fields.get("flags") === "master" &&
    fields.get("num-slaves") === `${NAMES.length - 1}` &&
    fields.get("num-other-sentinels") === `${NAMES.length - 1}`
  );
}

interface StartedNode extends SentinelNode {
  end(): Promise<void>;
}

interface NodeOptions {
  program: string;
  folder: string;
  index: number;
  name: SentinelNode["name"];
  port: number;
  edge: FaultyEdge;
  primaryPort: number;
}

async function startNode(options: NodeOptions): Promise<StartedNode> {
  const { program, index, name, port, edge, primaryPort } = options;
  const folder = join(options.folder, name);
  await mkdir(folder);
  const file = join(folder, "redis.conf");
  const own = [
    `bind 127.0.0.1`,
    `port ${port}`,
    `dir ${folder}`,
    `bind-source-addr ${PEERS}${index + 1}`,
    "replica-announce-ip 127.0.0.1",
    `replica-announce-port ${edge.port}`,
    ...(edge.port === primaryPort ? [] : [`replicaof 127.0.0.1 ${primaryPort}`]),
  ];
  const shared = await readFile(join(CONFIGURATION, "redis.conf"), "utf8");
  await writeFile(file, `${shared}\n${own.join("\n")}\n`);
  const start = () => launch(program, [file], port, folder);
  let running = await start();
  return {
    name,
    port: edge.port,
    kill: () => killChild(running),
    async start() {
      // Its guard has removed the folder, unless it was notified that the server ended.
      running = await start();
    },
    freeze: () => void running.kill("SIGSTOP"),
    thaw: () => void running.kill("SIGCONT"),
    cut: () => edge.set("silent"),
    cutFromPeers: () => edge.set({ silentFor: PEERS }),
    mend: () => edge.set("open"),
    async ask(...[name, ...given]) {
      const direct = client(port);
      try {
        return await direct.call(name, ...given);
      } finally {
        direct.disconnect();
      }
    },
    end: () => killChild(running),
  };
}

interface SentinelStart extends SentinelOptions {
  program: string;
  folder: string;
  index: number;
  port: number;
  primaryPort: number;
}

async function startSentinel(options: SentinelStart): Promise<Startable> {
  const { program, index, port, primaryPort, downAfterMs } = options;
  const folder = join(options.folder, `sentinel-${index}`);
  await mkdir(folder);
  const file = join(folder, "sentinel.conf");
  const shared = await readFile(join(CONFIGURATION, "sentinel.conf"), "utf8");
  const own = shared
    .replace(/^(sentinel monitor \w+) \S+ \d+/m, `$1 127.0.0.1 ${primaryPort}`)
    .replace(/(?<=^sentinel down-after-milliseconds \w+ )\d+/m, (given) => `${downAfterMs ?? given}`);
  const more = [
    `bind 127.0.0.1`,
    `port ${port}`,
    `dir ${folder}`,
    `bind-source-addr ${PEERS}${10 + index}`,
    "sentinel announce-ip 127.0.0.1",
    `sentinel announce-port ${port}`,
  ];
  await writeFile(file, `${own}\n${more.join("\n")}\n`);
  const start = () => launch(program, [file, "--sentinel"], port, folder);
  let running = await start();
  return {
    kill: () => killChild(running),
    async start() {
      running = await start();
    },
  };
}

/** Gives up what is not answered in a second. */
function client(port: number): Redis {
  const redis = new Redis({
    host: "127.0.0.1",
    port,
    commandTimeout: 1_000,
    enableReadyCheck: false,
    disableClientInfo: true,
    maxRetriesPerRequest: 0,
  });
  redis.on("error", () => undefined);
  return redis;
}

async function killChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, "exit");
  child.kill("SIGKILL");
  await gone;
}
