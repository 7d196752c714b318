import { setTimeout as sleep } from "node:timers/promises";
import {
  eventually,
  type Kubectl,
  KubectlFailed,
  NAMESPACE,
  type Pod,
  podsOf,
  refOf,
  run,
  settled,
  WORKLOADS,
  type Workload,
} from "./kubectl.ts";
import { replaceCertificates, replaceKeyEncryptionKey, replaceRedisPassword } from "./replacements.ts";

/** Something that happens to a running installation, until everything has settled. */
export interface Disturbance {
  name: string;
  /** @returns what it has to say, for the table. */
  run(): Promise<string>;
}

export interface TrialSettings {
  /** Another version's image, for `versions`. */
  otherImage: string | undefined;
  /** A program that ends a container by SIGKILL, for `kill`: it gets the container's id. */
  killWith: string | undefined;
  /** Used by `baseline`. */
  baselineSeconds: number;
  /** Where a disturbance is of a workload. */
  workloads: readonly Workload[];
  /** One disturbance meets all workloads at the same time, instead of one after the other. */
  atOnce: boolean;
}

/** What `wrong configuration` sets, in every process. */
const INVALID_SETTING = { variable: "DRAIN_DELAY_MS", value: "soon" };
const EXIT_CONFIG = 78;
const AUDIT_AWAY_MS = 10_000;
/** Entries that are on their way under load; thousands wait while audit-service is away. */
const MAX_UNSENT_UNDER_LOAD = 50;
const EVICTION_PAUSE_MS = 1_000;
/** CoreDNS' cache and one look-up: until then callers may not know the replica that took the place of the one before. */
const FOUND_BY_DNS_MS = 36_000;
const HPA_REPLICAS = { least: 2, most: 3 };

/** By the words that `--only` takes. */
export function disturbances(
  kubectl: Kubectl,
  settings: TrialSettings,
): Readonly<Record<string, Disturbance[]>> {
  const forEach = (verb: string, act: (workload: Workload) => Promise<string | undefined>): Disturbance[] => {
    const each = settings.workloads.map((workload) => ({
      name: `${verb}: ${workload.name}`,
      run: async () => {
        const note = await act(workload);
        await settled(kubectl, workload);
        return note ?? "";
      },
    }));
    if (!settings.atOnce) return each;
    const run = async () => [...new Set(await Promise.all(each.map((one) => one.run())))].join("; ");
    return [{ name: `${verb}: all at once`, run }];
  };
  const podsGone = async (workload: Workload, remove: (pod: Pod) => Promise<unknown>) => {
    for (const pod of await podsOf(kubectl, workload)) {
      await remove(pod);
      await settled(kubectl, workload);
    }
    return undefined;
  };

  return {
    baseline: [{ name: "nothing", run: () => sleep(settings.baselineSeconds * 1_000, "") }],
    restart: forEach("rolling restart", (workload) => restart(kubectl, workload)),
    scale: forEach("scaled to 3 and back to 2", (workload) => scale(kubectl, workload)),
    drain: forEach("every pod evicted", (workload) => evictAll(kubectl, workload)),
    delete: forEach("each pod deleted", (workload) =>
      podsGone(workload, ({ name }) => kubectl(["delete", "pod", name, "--wait=false"])),
    ),
    force: forEach("each pod deleted by force", (workload) =>
      podsGone(workload, async ({ name }) => {
        await kubectl(["delete", "pod", name, "--force", "--grace-period=0"]);
        await settled(kubectl, workload);
        await sleep(FOUND_BY_DNS_MS);
      }),
    ),
    kill: forEach("each process killed (SIGKILL)", async (workload) => {
      const { killWith } = settings;
      if (killWith === undefined) throw new Error("kill needs --kill-with");
      return podsGone(workload, (pod) => killed(kubectl, workload, pod, killWith));
    }),
    certificates: [
      { name: "authority and all certificates replaced", run: () => replaceCertificates(kubectl, WORKLOADS) },
    ],
    secrets: [
      { name: "Redis' password replaced", run: () => replaceRedisPassword(kubectl) },
      { name: "key of token-service's signing keys replaced", run: () => replaceKeyEncryptionKey(kubectl) },
    ],
    configuration: forEach("wrong configuration, then the right one", (workload) =>
      misconfigure(kubectl, workload),
    ),
    spool: [{ name: "gateway restarted while audit-service is away", run: () => restartWithSpool(kubectl) }],
    together: [
      {
        name: "rolling restart of everything at once",
        run: async () => {
          await Promise.all(WORKLOADS.map((workload) => kubectl(["rollout", "restart", refOf(workload)])));
          for (const workload of WORKLOADS) await settled(kubectl, workload);
          return "";
        },
      },
    ],
    versions: versions(kubectl, settings.otherImage),
  };
}

async function restart(kubectl: Kubectl, workload: Workload): Promise<undefined> {
  await kubectl(["rollout", "restart", refOf(workload)]);
}

/** By the limits of the autoscaler, which otherwise takes the change back. */
async function scale(kubectl: Kubectl, workload: Workload): Promise<undefined> {
  const { name } = workload;
  const hasScaler = (await kubectl(["get", "hpa", "--output", "name"])).includes(`/${name}\n`);
  const bound = (minReplicas: number, maxReplicas: number) =>
    hasScaler
      ? kubectl(["patch", "hpa", name, "--patch", JSON.stringify({ spec: { minReplicas, maxReplicas } })])
      : kubectl(["scale", refOf(workload), `--replicas=${minReplicas}`]);
  const { least, most } = HPA_REPLICAS;
  await bound(most, most);
  await hasReplicas(kubectl, workload, most);
  await bound(least, least);
  await hasReplicas(kubectl, workload, least);
  await bound(least, most);
}

async function hasReplicas(kubectl: Kubectl, workload: Workload, wanted: number): Promise<void> {
  await eventually(`${refOf(workload)} has ${wanted} replicas`, async () => {
    const replicas = await kubectl(["get", refOf(workload), "--output", "jsonpath={.spec.replicas}"]);
    return Number(replicas) === wanted || undefined;
  });
  await settled(kubectl, workload);
}

/**
 * What a node's drain does to a workload: all evictions are asked for again and again, and the disruption budget decides. The
 * node itself stays open, because the only one would have no place for the replacements.
 */
async function evictAll(kubectl: Kubectl, workload: Workload): Promise<string> {
  let refused = 0;
  for (const { name } of await podsOf(kubectl, workload)) {
    const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace: NAMESPACE } };
    const path = `/api/v1/namespaces/${NAMESPACE}/pods/${name}/eviction`;
    await eventually(`${name} may be evicted`, async () => {
      try {
        await kubectl(["create", "--raw", path, "--filename", "-"], JSON.stringify(eviction));
        return true;
      } catch (error) {
        const isBudget =
          error instanceof KubectlFailed && /disruption budget|TooManyRequests/.test(error.message);
        if (!isBudget) throw error;
        refused++;
        return undefined;
      }
    });
    await sleep(EVICTION_PAUSE_MS);
  }
  return refused === 0 ? "" : `the budget refused ${refused} times`;
}

/** Waits for the new process: the old container is "ready" for a moment after its end. */
async function killed(kubectl: Kubectl, workload: Workload, pod: Pod, program: string): Promise<void> {
  await run(program, [pod.containerId.replace(/^\w+:\/\//, "")]);
  await eventually(`${pod.name} has a new container`, async () => {
    const now = (await podsOf(kubectl, workload)).find(({ name }) => name === pod.name);
    return (now !== undefined && now.containerId !== pod.containerId) || undefined;
  });
}

/** The rollout must stop at the first replica, which says what is wrong, and go on by itself with the right configuration. */
async function misconfigure(kubectl: Kubectl, workload: Workload): Promise<string> {
  const { variable, value } = INVALID_SETTING;
  await kubectl(["set", "env", refOf(workload), `${variable}=${value}`]);
  try {
    const broken = await eventually(`a pod of ${workload.name} ends with ${EXIT_CONFIG}`, async () =>
      (await podsOf(kubectl, workload)).find(({ exitCode, isReady }) => exitCode === EXIT_CONFIG && !isReady),
    );
    // The container begins anew meanwhile, with an empty log.
    const line = await eventually(`${broken.name} names ${variable}`, async () => {
      const said = await kubectl(["logs", broken.name, "--container", workload.name, "--tail=20"]);
      return said.split("\n").find((text) => text.includes(variable));
    });
    return `exit ${EXIT_CONFIG}: \`${line.trim()}\``;
  } finally {
    await kubectl(["set", "env", refOf(workload), `${variable}-`]);
  }
}

async function restartWithSpool(kubectl: Kubectl): Promise<string> {
  const [audit, gateway] = ["audit-service", "gateway"].map((name) =>
    WORKLOADS.find((each) => each.name === name),
  );
  if (audit === undefined || gateway === undefined) throw new Error("a workload is missing");
  await kubectl(["scale", refOf(audit), "--replicas=0"]);
  await eventually(
    "audit-service is gone",
    async () => (await podsOf(kubectl, audit)).length === 0 || undefined,
  );
  await sleep(AUDIT_AWAY_MS);
  const waiting = await unsent(kubectl, gateway);
  if (waiting === 0) throw new Error("no entry waited when the gateway was restarted");
  await restart(kubectl, gateway);
  await settled(kubectl, gateway);
  await kubectl(["scale", refOf(audit), `--replicas=${HPA_REPLICAS.least}`]);
  await settled(kubectl, audit);
  await eventually(
    "the spools are sent",
    async () => (await unsent(kubectl, gateway)) < MAX_UNSENT_UNDER_LOAD || undefined,
  );
  return `${waiting.toLocaleString("en")} entries waited at the restart, and all were sent`;
}

/** Of all gateways, by their metrics. */
async function unsent(kubectl: Kubectl, gateway: Workload): Promise<number> {
  const script =
    "fetch('http://127.0.0.1:9080/metrics').then((answer) => answer.text()).then((text) => " +
    "console.log(/^gatehouse_audit_queued_entries(?:\\{.*\\})? (\\S+)/m.exec(text)?.[1]))";
  const pods = await podsOf(kubectl, gateway);
  const counts = await Promise.all(
    pods.map(async ({ name }) => Number(await kubectl(["exec", name, "--", "node", "--eval", script]))),
  );
  return counts.reduce((sum, count) => sum + count, 0);
}

/** Each service alone in the other version, in either order, and back. */
function versions(kubectl: Kubectl, otherImage: string | undefined): Disturbance[] {
  const roll = (workload: Workload, image: () => Promise<string>, name: string): Disturbance => ({
    name,
    run: async () => {
      await kubectl(["set", "image", refOf(workload), `*=${await image()}`]);
      await settled(kubectl, workload);
      return "";
    },
  });
  const other = async () => {
    if (otherImage === undefined) throw new Error("versions needs --other-image");
    return otherImage;
  };
  let own = "";
  const remembered = async () => own;
  const remember = async () => {
    own ||= await imageOf(kubectl);
    return other();
  };
  const backwards = [...WORKLOADS].reverse();
  return [
    ...WORKLOADS.map((each) => roll(each, remember, `to the other version: ${each.name}`)),
    ...WORKLOADS.map((each) => roll(each, remembered, `back: ${each.name}`)),
    ...backwards.map((each) => roll(each, remember, `to the other version, callers first: ${each.name}`)),
    ...backwards.map((each) => roll(each, remembered, `back, callers first: ${each.name}`)),
  ];
}

export function imageOf(kubectl: Kubectl): Promise<string> {
  const path = "jsonpath={.spec.template.spec.containers[0].image}";
  return kubectl(["get", "statefulset/gateway", "--output", path]);
}
