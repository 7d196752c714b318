import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, chown, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import postgres from "postgres";
import {
  type Container,
  containersOf,
  environmentOf,
  mountedFiles,
  named,
  ofKind,
  type Workload,
  workloadsOf,
} from "../k8s/manifests.ts";
import { type Manifest, renderOverlay } from "../k8s/render.ts";
import { type TrialSecret, trialSecrets } from "../k8s/trial-secrets.ts";
import { NOBODY, startEmbeddedPostgres } from "../local/postgres/embedded-postgres.ts";

/*
 * Runs the development overlay with Docker instead of a cluster, then registers, logs in, pays, reads the log and stops.
 * PostgreSQL and the mailbox run on the host. Needs root, docker, kubectl, psql, and the ports of the overlay.
 *
 *   node deploy/image/trial.ts gatehouse:0.1.0
 */

const ROOT = resolve(import.meta.dirname, "..", "..");
const GATEWAY = "http://localhost:8080";
const READY_TIMEOUT_MS = 60_000;
const run = promisify(execFile);

interface Trial {
  image: string;
  folder: string;
  manifests: readonly Manifest[];
  secrets: readonly TrialSecret[];
}

const [image = "gatehouse:0.1.0"] = process.argv.slice(2);
const folder = await mkdtemp(join(tmpdir(), "gatehouse-trial-"));
const trial: Trial = {
  image,
  folder,
  manifests: renderOverlay("development"),
  secrets: await trialSecrets(new Date()),
};
const ours = workloadsOf(trial.manifests).filter(({ pod }) => /^gatehouse[:@]/.test(pod.containers[0].image));
const jobs = ours.filter(({ kind }) => kind === "Job");
const services = ours.filter(({ kind }) => kind !== "Job");
const database = await startDatabase(trial);
const mailbox = await startMailbox(folder);
try {
  await carryOut();
} catch (error) {
  process.exitCode = 1;
  console.error(error);
  for (const { name } of services) {
    const { stdout, stderr } = await docker("logs", "--tail", "5", containerName(name)).catch(
      (failure) => failure,
    );
    console.error(`${name}:\n${stdout ?? ""}${stderr ?? ""}`);
  }
} finally {
  for (const { name } of services) await docker("rm", "--force", containerName(name)).catch(() => {});
  mailbox.kill("SIGKILL");
  await database.stop();
  await rm(folder, { recursive: true });
}

async function carryOut(): Promise<void> {
  const startedAt = performance.now();
  const since = () => `${((performance.now() - startedAt) / 1_000).toFixed(1)} s`;
  // Runs every migration twice concurrently, as after a lost node.
  const migrated = Promise.all(jobs.flatMap((job) => [runToEnd(job, 0), runToEnd(job, 1)]));
  const started = Promise.all(services.map(startService));
  for (const output of await migrated) console.log(output.trimEnd().split("\n").at(-1));
  await started;
  await Promise.all(services.map(untilReady));
  console.log(`all ready after ${since()}`);
  await useIt();
  const format = "{{.Name}} {{.MemUsage}}";
  const { stdout } = await docker(
    "stats",
    "--no-stream",
    "--format",
    format,
    ...services.map(({ name }) => containerName(name)),
  );
  console.log(stdout.trimEnd());
  await Promise.all(services.map(stopService));
}

async function docker(...args: string[]): Promise<{ stdout: string; stderr: string }> {
  return run("docker", args, { timeout: 5 * 60_000 });
}

function containerName(workload: string): string {
  return `gatehouse-trial-${workload}`;
}

/** Files belong to root and are readable for the pod's group, as in Kubernetes. */
async function putFiles(
  { folder, manifests, secrets }: Trial,
  workload: Workload,
  container: Container,
  run: number,
) {
  const root = join(folder, `${workload.name}-${container.name}-${run}`);
  const group: number = workload.pod.securityContext.fsGroup;
  for (const { path, from } of mountedFiles(workload, container)) {
    const target = join(root, path);
    const text =
      from.kind === "Secret"
        ? secrets.find(({ name }) => name === from.name)?.values[from.key]
        : named(manifests, "ConfigMap", from.name).data[from.key];
    await mkdir(dirname(target), { recursive: true });
    await writeFile(target, text, { mode: 0o440 });
    await chown(target, 0, group);
  }
  for (const { mountPath, readOnly } of container.volumeMounts ?? []) {
    await mkdir(join(root, mountPath), { recursive: true });
    if (readOnly !== true) {
      await chown(join(root, mountPath), 0, group);
      await chmod(join(root, mountPath), 0o2770);
    }
  }
  return root;
}

/** Converts the manifest to options of `docker run`. */
async function optionsOf(workload: Workload, container: Container, run = 0): Promise<string[]> {
  const root = await putFiles(trial, workload, container, run);
  const { runAsUser, runAsGroup } = workload.pod.securityContext;
  const memory = container.resources.limits.memory.replace(/i$/, "").toLowerCase();
  return [
    "--network=host",
    ...ofKind(trial.manifests, "Service").map(({ metadata }) => `--add-host=${metadata.name}:127.0.0.1`),
    `--user=${runAsUser}:${runAsGroup}`,
    "--read-only",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
    `--memory=${memory}`,
    ...Object.entries(environmentOf(trial.manifests, container)).map(
      ([key, value]) => `--env=${key}=${value}`,
    ),
    ...(container.volumeMounts ?? []).map(
      ({ mountPath, readOnly }) => `--volume=${join(root, mountPath)}:${mountPath}:${readOnly ? "ro" : "rw"}`,
    ),
    trial.image,
    ...(container.args ?? []),
  ];
}

async function runToEnd(workload: Workload, run: number): Promise<string> {
  const { stdout } = await docker(
    "run",
    "--rm",
    ...(await optionsOf(workload, workload.pod.containers[0], run)),
  );
  return stdout;
}

async function startService(workload: Workload): Promise<void> {
  for (const container of containersOf(workload)) {
    const options = await optionsOf(workload, container);
    if (workload.pod.initContainers?.includes(container)) await docker("run", "--rm", ...options);
    else await docker("run", "--detach", `--name=${containerName(workload.name)}`, ...options);
  }
}

async function untilReady({ name, pod }: Workload): Promise<void> {
  const ports: { name: string; containerPort: number }[] = pod.containers[0].ports;
  const port = ports.find((candidate) => candidate.name === "operations")?.containerPort;
  const deadline = performance.now() + READY_TIMEOUT_MS;
  while (performance.now() < deadline) {
    const answer = await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => undefined);
    if (answer?.ok) return;
    await sleep(100);
  }
  throw new Error(`${name} did not become ready`);
}

async function useIt(): Promise<void> {
  const ada = { email: "ada@example.com", password: "Correct-Horse-42" };
  await call("POST", "/auth/register", 201, { body: { ...ada, firstName: "Ada", lastName: "Lovelace" } });
  const { accessToken } = (await call("POST", "/auth/login", 200, { body: ada })).data;
  const payment = { amount: 1250, currency: "EUR", payee: "ACME Ltd", reference: "invoice 7" };
  await call("POST", "/payments", 201, { body: payment, token: accessToken });
  await call("GET", "/payments", 200, { token: accessToken });
  await call("GET", "/payments", 401);
  const password = trial.secrets.find(({ name }) => name === "first-administrator")?.values.password;
  const admin = await call("POST", "/auth/login", 200, {
    body: { email: "admin@gatehouse.example", password },
  });
  await call("GET", "/admin/audit?limit=20", 200, { token: admin.data.accessToken });
  for (const { name } of services) {
    await docker("exec", containerName(name), "node", "dist/health.mjs");
  }
}

interface Answer {
  data: { accessToken: string };
}

async function call(
  method: string,
  path: string,
  expected: number,
  { body, token }: { body?: object; token?: string } = {},
): Promise<Answer> {
  const answer = await fetch(GATEWAY + path, {
    method,
    headers: {
      ...(body && { "content-type": "application/json" }),
      ...(token && { authorization: `Bearer ${token}` }),
    },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  console.log(`${method} ${path}: ${answer.status}`);
  if (answer.status !== expected) throw new Error(`${method} ${path} answered ${answer.status}: ${text}`);
  return JSON.parse(text);
}

async function stopService({ name, pod }: Workload): Promise<void> {
  const startedAt = performance.now();
  await docker("stop", `--time=${pod.terminationGracePeriodSeconds ?? 30}`, containerName(name));
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
  const { stdout } = await docker("inspect", "--format", "{{.State.ExitCode}}", containerName(name));
  console.log(`${name} ended ${stdout.trim()} ${seconds} s after SIGTERM`);
  if (stdout.trim() !== "0") throw new Error(`${name} did not stop in order`);
}

/** Uses the overlay's passwords, certificate and script. */
async function startDatabase({ folder, secrets }: Trial): Promise<{ stop(): Promise<void> }> {
  const secret = (name: string) => secrets.find((candidate) => candidate.name === name)?.values ?? {};
  await run("chmod", ["0755", folder]);
  const password = secret("postgres-superuser").password ?? "";
  const server = await startEmbeddedPostgres({
    dataDirectory: join(folder, "postgres"),
    port: 5432,
    password,
    logFile: join(folder, "postgres.log"),
    durable: false,
  });
  const admin = postgres({ ...server.server, database: "postgres", max: 1, onnotice: () => {} });
  for (const key of ["tls.crt", "tls.key"]) {
    const path = join(folder, key);
    await writeFile(path, secret("postgres-tls")[key] ?? "", { mode: 0o600 });
    await chown(path, NOBODY.uid, NOBODY.gid);
  }
  await admin.unsafe(`alter system set ssl_cert_file = '${join(folder, "tls.crt")}'`);
  await admin.unsafe(`alter system set ssl_key_file = '${join(folder, "tls.key")}'`);
  await admin.unsafe("alter system set ssl = on");
  await admin`select pg_reload_conf()`;
  await admin.end();
  const passwords = join(folder, "passwords");
  await mkdir(passwords);
  for (const name of ["identity", "token", "audit", "event"]) {
    await writeFile(join(passwords, name), secret(`${name}-database`).password ?? "");
    await writeFile(join(passwords, `${name}-owner`), secret(`${name}-database-owner`).password ?? "");
  }
  await run("sh", [join(ROOT, "deploy/k8s/overlays/development/postgres/create-databases.sh")], {
    env: {
      PATH: process.env.PATH,
      PASSWORDS: passwords,
      PGHOST: "127.0.0.1",
      PGUSER: server.server.username,
      PGPASSWORD: password,
    },
  });
  return { stop: () => server.stop() };
}

async function startMailbox(folder: string): Promise<ChildProcess> {
  const mails = join(folder, "mail");
  await mkdir(mails);
  const environment = { SMTP_PORT: "1025", MAILBOX_PORT: "1080", MAIL_DIRECTORY: mails };
  const started = spawn(process.execPath, [join(ROOT, "deploy/local/demo/mailbox.ts")], {
    env: environment,
    stdio: "ignore",
  });
  await once(started, "spawn");
  return started;
}
