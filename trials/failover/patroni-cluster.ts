import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync, readdirSync, readFileSync } from "node:fs";
import { chmod, chown, copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { get } from "node:http";
import { delimiter, join, resolve } from "node:path";
import { NOBODY } from "#deploy/local/postgres/embedded-postgres.ts";
import { connectTo } from "#deploy/local/postgres/ensure-database.ts";
import { randomPassword } from "#deploy/local/private-file.ts";
import { DATA_ROOT } from "#tests/support/database/postgres-test-server.ts";
import { type FaultyEdge, openEdge } from "#tests/support/system/faulty-edge.ts";
import { freePort } from "#tests/support/system/free-port.ts";
import { until } from "../support.ts";

const CONFIGURATION = resolve(import.meta.dirname, "..", "..", "deploy", "high-availability");
const NAMES = ["a", "b", "c"] as const;
const PROGRAMS = ["patroni", "etcd", "haproxy"] as const;
/** Where Debian keeps what is not on everybody's PATH. */
const PROGRAM_FOLDERS = [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin", "/sbin"];
/** Patroni needs more of PostgreSQL than the tests' embedded one has: pg_basebackup, pg_rewind, pg_controldata. */
const POSTGRES_FOLDERS = ["18", "17", "16", "15"].map((version) => `/usr/lib/postgresql/${version}/bin`);
const SUPERUSER = "postgres";

type NodeName = (typeof NAMES)[number];

/** What is missing for a cluster, as a line for whoever runs the tests; undefined if nothing is. */
export function missingForCluster(): string | undefined {
  const missing = PROGRAMS.filter((name) => programPath(name) === undefined);
  if (missing.length === 0 && postgresFolder() !== undefined) return undefined;
  return "`apt-get install patroni etcd-server haproxy postgresql` (Debian)";
}

/** The program's path, also where Debian hides it from users. */
function programPath(name: string): string | undefined {
  return PROGRAM_FOLDERS.map((folder) => join(folder, name)).find((path) => existsSync(path));
}

const postgresFolder = () => POSTGRES_FOLDERS.find((folder) => existsSync(join(folder, "pg_basebackup")));

export interface ClusterNode {
  name: NodeName;
  /** Of PostgreSQL, reached as others reach it: over an edge that can be cut. */
  port: number;
  /** `kill -9` of PostgreSQL alone. Patroni lives and sees it. */
  killPostgres(): void;
  /** `kill -9` of everything on the node. */
  kill(): Promise<void>;
  /** Called after `kill`. */
  start(): void;
  /** `SIGSTOP` of everything on the node: its kernel still takes connections. */
  freeze(): void;
  thaw(): void;
  /** Nothing passes from or to the node; connections stay. */
  cut(): Promise<void>;
  mend(): Promise<void>;
  /** No standby gets anything of this node any more, until `mend`. */
  stopReplication(): Promise<void>;
}

/** Three PostgreSQL under Patroni with etcd, and HAProxy before them, all with the files of `deploy/high-availability/`. */
export interface PatroniCluster {
  /** Used by HAProxy. */
  port: number;
  /** Of the nodes, in the form of a URL with several hosts. */
  hosts: string;
  nodes: readonly ClusterNode[];
  superuser: { username: string; password: string };
  /** Who says that it is the primary, asked behind the edges. */
  primary(but?: ClusterNode): Promise<ClusterNode | undefined>;
  /** Resolves when another node than `old` is the primary, with the time by `performance.now()`. */
  elected(old: ClusterNode): Promise<{ node: ClusterNode; atMs: number }>;
  /** Resolves with the time when it has answered a commit: when a standby has it, if one is to have it. */
  writable(node: ClusterNode): Promise<number>;
  /** Until there is a primary, and two standbys that stream, one of them synchronously if it is to be so. */
  whole(): Promise<void>;
  /** Changes the settings in etcd, as `patronictl edit-config`. */
  configure(change: object): Promise<void>;
  remove(): Promise<void>;
}

interface Addresses {
  postgres: number;
  rest: number;
}

export async function startPatroniCluster(): Promise<PatroniCluster> {
  const folder = await mkdtemp(join(DATA_ROOT, "gatehouse-patroni-"));
  await chmod(folder, 0o755);
  await mkdir(join(folder, "pids"), { mode: 0o700 });
  const warden = guard(folder);
  const superuser = { username: SUPERUSER, password: randomPassword() };
  const replication = randomPassword();
  const api = etcdApi();
  const etcd = await startEtcd(folder, api);
  const nodes = await Promise.all(
    NAMES.map((name) => startNode(name, { folder, api, etcdPort: etcd.port, superuser, replication })),
  );
  const port = await freePort();
  const proxy = await startHaproxy(folder, port, nodes);

  const primary = async (but?: ClusterNode) => {
    const answers = await Promise.all(
      nodes.map(async (node) => node !== but && (await statusOf(node.own.rest, "/primary")) === 200),
    );
    return nodes[answers.indexOf(true)];
  };
  const isWhole = async () => {
    const found = await primary();
    if (found === undefined) return false;
    const members = (await readCluster(found.own.rest)).map(({ role, state }) => `${role} ${state}`).sort();
    const synchronous = ["leader running", "replica running", "sync_standby running"];
    const asynchronous = ["leader running", "replica running", "replica running"];
    const streaming = members.map((member) => member.replace("streaming", "running"));
    const wanted = isSynchronous ? synchronous : asynchronous;
    return JSON.stringify(streaming) === JSON.stringify(wanted);
  };
  let isSynchronous = true;
  return {
    port,
    hosts: nodes.map((node) => `127.0.0.1:${node.port}`).join(","),
    nodes,
    superuser,
    primary,
    async elected(old) {
      return until("another primary", async () => {
        const node = await primary(old);
        return node && { node, atMs: performance.now() };
      });
    },
    async writable(node) {
      const sql = connectTo({ host: "127.0.0.1", port: node.port, ...superuser }, "postgres");
      try {
        return await until("a commit", async () => {
          // Written to the log, so that it is waited for.
          await sql`select pg_logical_emit_message(true, 'failover', 'probe')`;
          return performance.now();
        });
      } finally {
        await sql.end({ timeout: 0 });
      }
    },
    async whole() {
      await until("a whole cluster", isWhole);
    },
    async configure(change) {
      isSynchronous = (change as { synchronous_mode?: boolean }).synchronous_mode ?? isSynchronous;
      const found = await until("a primary", () => primary());
      const answer = await fetch(`http://127.0.0.1:${found.own.rest}/config`, {
        method: "PATCH",
        body: JSON.stringify(change),
      });
      if (!answer.ok) throw new Error(`Patroni refused: ${answer.status} ${await answer.text()}`);
    },
    async remove() {
      proxy.kill("SIGKILL");
      await Promise.all(nodes.map((node) => node.close()));
      etcd.child.kill("SIGKILL");
      warden.end("done\n");
      if (process.env.FAILOVER_LOGS !== undefined) await keepLogs(folder, process.env.FAILOVER_LOGS);
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

async function keepLogs(folder: string, target: string): Promise<void> {
  await mkdir(target, { recursive: true });
  const names = readdirSync(folder).filter((name) => name.endsWith(".log"));
  await Promise.all(names.map((name) => copyFile(join(folder, name), join(target, name))));
}

/** Ends everything if this process is gone, however it went: its end of the pipe closes. */
function guard(folder: string) {
  const script =
    'read -r _ || { for f in "$0"/pids/* "$0"/*/data/postmaster.pid; do kill -KILL "$(head -n 1 "$f")"; done; rm -rf "$0"; }';
  const watcher = spawn("/bin/sh", ["-c", script, folder], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  watcher.stdin.on("error", () => undefined);
  watcher.unref();
  return watcher.stdin;
}

/** ETCD: version 2. */
type EtcdApi = "ETCD" | "ETCD3";

/**
 * By etcd's API 3, Patroni before 3.0.3 takes the lock from a new primary when it wakes up (patroni/patroni#2689), and what
 * the new primary had acknowledged is lost.
 */
function etcdApi(): EtcdApi {
  const text = execFileSync(programPath("patroni") ?? "", ["--version"], { encoding: "utf8" });
  const [major = 0, minor = 0, patch = 0] = (/[\d.]+/.exec(text)?.[0] ?? "").split(".").map(Number);
  return major * 1e6 + minor * 1e3 + patch < 3_000_003 ? "ETCD" : "ETCD3";
}

async function startEtcd(folder: string, api: EtcdApi): Promise<{ child: ChildProcess; port: number }> {
  const [port, peerPort] = [await freePort(), await freePort()];
  const [url, peerUrl] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${peerPort}`];
  const child = await launch(folder, "etcd", [
    ...["--name", "one", "--data-dir", join(folder, "etcd"), "--logger", "zap"],
    ...["--listen-client-urls", url, "--advertise-client-urls", url],
    ...["--listen-peer-urls", peerUrl, "--initial-advertise-peer-urls", peerUrl],
    ...["--initial-cluster", `one=${peerUrl}`],
    ...(api === "ETCD" ? ["--enable-v2"] : []),
  ]);
  await until("etcd", async () => (await statusOf(port, "/health")) === 200);
  return { child, port };
}

async function startHaproxy(
  folder: string,
  port: number,
  nodes: readonly RunningNode[],
): Promise<ChildProcess> {
  const perNode = nodes.flatMap(({ name, port: postgres, rest }) => {
    const suffix = name.toUpperCase();
    return [
      [`POSTGRES_${suffix}`, `127.0.0.1:${postgres}`],
      [`REST_HOST_${suffix}`, "127.0.0.1"],
      [`REST_PORT_${suffix}`, String(rest)],
    ];
  });
  return launch(folder, "haproxy", ["-db", "-f", join(CONFIGURATION, "haproxy.cfg")], {
    env: { POSTGRES_BIND: `127.0.0.1:${port}`, ...Object.fromEntries(perNode) },
  });
}

interface NodeOptions {
  folder: string;
  api: EtcdApi;
  etcdPort: number;
  superuser: { username: string; password: string };
  replication: string;
}

interface RunningNode extends ClusterNode {
  rest: number;
  /** Behind the edges. */
  own: Addresses;
  close(): Promise<void>;
}

async function startNode(name: NodeName, options: NodeOptions): Promise<RunningNode> {
  const home = join(options.folder, name);
  await mkdir(home, { mode: 0o700 });
  const user = process.getuid?.() === 0 ? NOBODY : undefined;
  if (user !== undefined) await chown(home, user.uid, user.gid);
  const own: Addresses = { postgres: await freePort(), rest: await freePort() };
  const edges = {
    postgres: await openEdge(own.postgres, await freePort()),
    /** To the same, for the other nodes. */
    replication: await openEdge(own.postgres, await freePort()),
    rest: await openEdge(own.rest, await freePort()),
    etcd: await openEdge(options.etcdPort, await freePort()),
  };
  const all: FaultyEdge[] = Object.values(edges);
  const environment = {
    PATH: process.env.PATH ?? "",
    LC_ALL: "C.UTF-8",
    PATRONI_NAME: name,
    PATRONI_RESTAPI_LISTEN: `127.0.0.1:${own.rest}`,
    PATRONI_RESTAPI_CONNECT_ADDRESS: `127.0.0.1:${edges.rest.port}`,
    PATRONI_POSTGRESQL_LISTEN: `127.0.0.1:${own.postgres}`,
    PATRONI_POSTGRESQL_CONNECT_ADDRESS: `127.0.0.1:${edges.replication.port}`,
    PATRONI_POSTGRESQL_DATA_DIR: join(home, "data"),
    PATRONI_POSTGRESQL_BIN_DIR: postgresFolder() ?? "",
    PATRONI_POSTGRESQL_PGPASS: join(home, "pgpass"),
    PATRONI_SUPERUSER_USERNAME: options.superuser.username,
    PATRONI_SUPERUSER_PASSWORD: options.superuser.password,
    PATRONI_REPLICATION_USERNAME: "replicator",
    PATRONI_REPLICATION_PASSWORD: options.replication,
    [`PATRONI_${options.api}_HOSTS`]: `127.0.0.1:${edges.etcd.port}`,
    // Else Patroni finds etcd's own address, past the edge.
    [`PATRONI_${options.api}_USE_PROXIES`]: "true",
  };
  let child: ChildProcess | undefined;
  const start = () => {
    void launch(options.folder, "patroni", [join(CONFIGURATION, "patroni.yml")], {
      name: `patroni-${name}`,
      env: environment,
      ...user,
    }).then((started) => {
      child = started;
    });
  };
  const postmaster = () => {
    const file = join(home, "data", "postmaster.pid");
    return existsSync(file) ? Number(readFileSync(file, "utf8").split("\n")[0]) : undefined;
  };
  const signalAll = (signal: NodeJS.Signals) => {
    const roots = [child?.pid, postmaster()].filter((pid) => pid !== undefined);
    for (const pid of [...new Set(roots.flatMap((root) => [root, ...descendants(root)]))]) send(pid, signal);
  };
  const set = async (state: "open" | "silent") => {
    await Promise.all(all.map((edge) => edge.set(state)));
  };
  const kill = async () => {
    signalAll("SIGKILL");
    if (child !== undefined && child.exitCode === null && child.signalCode === null)
      await once(child, "exit");
    child = undefined;
  };
  start();
  return {
    name,
    port: edges.postgres.port,
    rest: edges.rest.port,
    own,
    killPostgres: () => void send(postmaster() ?? 0, "SIGKILL"),
    kill,
    start,
    freeze: () => signalAll("SIGSTOP"),
    thaw: () => signalAll("SIGCONT"),
    cut: () => set("silent"),
    mend: () => set("open"),
    stopReplication: () => edges.replication.set("refused"),
    async close() {
      await kill();
      await Promise.all(all.map((edge) => edge.close()));
    },
  };
}

function send(pid: number, signal: NodeJS.Signals): void {
  if (pid <= 1) return;
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended.
  }
}

function descendants(root: number): number[] {
  const parents = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, "utf8");
        return [[Number(name), Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1])] as const];
      } catch {
        return [];
      }
    });
  const found = [root];
  for (const pid of found)
    found.push(...parents.filter(([, parent]) => parent === pid).map(([child]) => child));
  return found.slice(1);
}

interface LaunchOptions {
  /** Position within the log, which grows. Default: that of the program. */
  name?: string;
  env?: Record<string, string>;
  uid?: number;
  gid?: number;
}

async function launch(
  folder: string,
  program: string,
  args: readonly string[],
  { name = program, env = {}, ...user }: LaunchOptions = {},
): Promise<ChildProcess> {
  const path = programPath(program);
  if (path === undefined) throw new Error(`there is no ${program}`);
  const log = openSync(join(folder, `${name}.log`), "a", 0o600);
  const child = spawn(path, args, { cwd: "/", env, ...user, stdio: ["ignore", log, log], detached: true });
  closeSync(log);
  await once(child, "spawn");
  await writeFile(join(folder, "pids", name), `${child.pid}\n`);
  return child;
}

/** 0 without an answer. */
function statusOf(port: number, path: string): Promise<number> {
  return new Promise((done) => {
    const request = get({ host: "127.0.0.1", port, path, timeout: 1_000, agent: false }, (response) => {
      response.resume();
      done(response.statusCode ?? 0);
    });
    request.on("timeout", () => request.destroy()).on("error", () => done(0));
  });
}

async function readCluster(port: number): Promise<{ role: string; state: string }[]> {
  const answer = await fetch(`http://127.0.0.1:${port}/cluster`, { signal: AbortSignal.timeout(2_000) });
  return ((await answer.json()) as { members: { role: string; state: string }[] }).members;
}
