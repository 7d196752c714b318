import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { type TrialSecret, trialSecrets } from "#deploy/k8s/trial-secrets.ts";
import { randomPassword } from "#deploy/local/private-file.ts";
import type { Kubectl } from "./kubectl.ts";
import { eventually, podsOf, refOf, settled, type Workload } from "./kubectl.ts";

/** Processes read their certificates again every 30 s. */
const CERTIFICATES_READ_MS = 35_000;

type Values = Readonly<Record<string, string>>;

/** As docs/operations/rotate.md says: both authorities, then the new certificates, then the new authority alone. */
export async function replaceCertificates(kubectl: Kubectl, workloads: readonly Workload[]): Promise<string> {
  // PostgreSQL keeps its certificate and the databases' Secrets their authority: they are not Gatehouse's to replace.
  const fresh = (await trialSecrets(new Date())).filter(
    ({ name, values }) => "tls.crt" in values && name !== "postgres-tls",
  );
  const former = (await secret(kubectl, "gateway-tls"))["ca.crt"] ?? "";
  const began = performance.now();
  const step = async (valuesOf: (pair: Values) => Values) => {
    for (const { name, values } of fresh) await patchSecret(kubectl, name, valuesOf(values));
    for (const workload of workloads) await mounted(kubectl, workload, fresh, valuesOf);
    await sleep(CERTIFICATES_READ_MS);
  };
  await step((pair) => ({ "ca.crt": `${former}${pair["ca.crt"]}` }));
  await step(({ "tls.crt": certificate = "", "tls.key": key = "" }) => ({
    "tls.crt": certificate,
    "tls.key": key,
  }));
  await step(({ "ca.crt": authority = "" }) => ({ "ca.crt": authority }));
  return `three steps in ${((performance.now() - began) / 1_000).toFixed(0)} s, most of it the kubelet's`;
}

/** Waits until the kubelet has written what a step changes into every pod. */
async function mounted(
  kubectl: Kubectl,
  workload: Workload,
  fresh: readonly TrialSecret[],
  valuesOf: (pair: Values) => Values,
): Promise<void> {
  const pair = fresh.find(({ name }) => name === `${workload.name}-tls`)?.values;
  if (pair === undefined) throw new Error(`${workload.name} has no certificate`);
  for (const [file, value] of Object.entries(valuesOf(pair))) {
    await eventually(`${workload.name} has its new ${file}`, async () => {
      const pods = await podsOf(kubectl, workload);
      // The autoscaler may add one at any time.
      if (pods.some(({ isReady }) => !isReady)) return undefined;
      const files = pods.map(({ name }) => kubectl(["exec", name, "--", "cat", `/run/secrets/tls/${file}`]));
      return (await Promise.all(files)).every((text) => text === value) || undefined;
    });
  }
}

/** Both passwords are valid until every replica has the new one. */
export async function replaceRedisPassword(kubectl: Kubectl): Promise<string> {
  const former = (await secret(kubectl, "redis")).password ?? "";
  const password = randomPassword();
  const acl = (rule: string, authenticated: string) =>
    // On standard input, because other processes may read a command line.
    kubectl(
      ["exec", "--stdin", "deployment/redis", "--", "valkey-cli"],
      `AUTH ${authenticated}\nACL SETUSER default ${rule}\n`,
    );
  const accepted = async (answer: Promise<string>) => {
    const said = await answer;
    if (said.trim() !== "OK\nOK") throw new Error(`Redis did not take the password: ${said}`);
  };
  await accepted(acl(`>${password}`, former));
  await patchSecret(kubectl, "redis", { password });
  for (const workload of redisUsers()) {
    await kubectl(["rollout", "restart", refOf(workload)]);
    await settled(kubectl, workload);
  }
  await accepted(acl(`<${former}`, password));
  return "three rollouts";
}

function redisUsers(): Workload[] {
  return [
    { kind: "deployment", name: "token-service" },
    { kind: "deployment", name: "identity-service" },
    { kind: "statefulset", name: "gateway" },
  ];
}

/** The new key is known everywhere before the first replica encrypts with it. */
export async function replaceKeyEncryptionKey(kubectl: Kubectl): Promise<string> {
  const service: Workload = { kind: "deployment", name: "token-service" };
  const [current, previous] = ["key-encryption-key", "key-encryption-key-previous"] as const;
  const former = (await secret(kubectl, "token-keys"))[current] ?? "";
  const fresh = randomBytes(32).toString("base64");
  await patchSecret(kubectl, "token-keys", { [previous]: fresh });
  await kubectl(["patch", refOf(service), "--patch", keysPatch(current, previous)]);
  await settled(kubectl, service);
  await patchSecret(kubectl, "token-keys", { [current]: fresh, [previous]: former });
  await kubectl(["rollout", "restart", refOf(service)]);
  await settled(kubectl, service);
  await kubectl(["patch", refOf(service), "--patch", keysPatch(current)]);
  await settled(kubectl, service);
  await kubectl([
    "patch",
    "secret",
    "token-keys",
    "--type=json",
    "--patch",
    `[{"op":"remove","path":"/data/${previous}"}]`,
  ]);
  return "three rollouts";
}

/** Mounts the keys, and names the previous one, or takes its name away. */
function keysPatch(...keys: string[]): string {
  const name = "KEY_ENCRYPTION_KEY_PREVIOUS_FILE";
  const variable =
    keys[1] === undefined ? { name, $patch: "delete" } : { name, value: `/run/secrets/keys/${keys[1]}` };
  const items = keys.map((key) => ({ key, path: key }));
  const spec = {
    containers: [{ name: "token-service", env: [variable] }],
    volumes: [{ name: "keys", secret: { items } }],
  };
  return JSON.stringify({ spec: { template: { spec } } });
}

async function secret(kubectl: Kubectl, name: string): Promise<Values> {
  const { data } = JSON.parse(await kubectl(["get", "secret", name, "--output", "json"]));
  const texts = Object.entries(data).map(([key, value]) => [
    key,
    Buffer.from(String(value), "base64").toString(),
  ]);
  return Object.fromEntries(texts);
}

/** By standard input: a secret is on no command line. */
async function patchSecret(kubectl: Kubectl, name: string, stringData: Values): Promise<void> {
  const manifest = { apiVersion: "v1", kind: "Secret", metadata: { name }, stringData };
  await kubectl(
    ["apply", "--server-side", "--force-conflicts", "--field-manager=try", "--filename", "-"],
    JSON.stringify(manifest),
  );
}
