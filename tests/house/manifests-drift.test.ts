import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import type { z } from "zod";
import { configSchema as auditConfig } from "#audit-service/config.ts";
import { AUDIT_CALLERS } from "#audit-service/intake/audit-rpc.ts";
import { AUDIT_QUERY_CALLERS } from "#audit-service/query/audit-query-rpc.ts";
import { configSchema as paymentsConfig } from "#clients/examples/payments-service/config.ts";
import { schemaConfigSchema } from "#deploy/image/schema-config.ts";
import {
  type Container,
  containersOf,
  environmentOf,
  mountedFiles,
  named,
  ofKind,
  selects,
  type Workload,
  workloadsOf,
} from "#deploy/k8s/manifests.ts";
import {
  FURTHER_DATABASES,
  hasKubectl,
  type Manifest,
  OVERLAYS,
  renderOverlay,
  renderProduction,
  SENTINELS,
  SIEM,
} from "#deploy/k8s/render.ts";
import { type TrialSecret, trialSecrets } from "#deploy/k8s/trial-secrets.ts";
import { SERVICE_DATABASES } from "#deploy/service-databases.ts";
import { configSchema as eventConfig } from "#event-service/config.ts";
import { SIGNAL_CALLERS } from "#event-service/signal-rpc.ts";
import { WEBHOOK_CALLERS } from "#event-service/webhook-rpc.ts";
import { type Config as GatewayConfig, configSchema as gatewayConfig } from "#gateway/config.ts";
import { type Config as IdentityConfig, configSchema as identityConfig } from "#identity-service/config.ts";
import { IDENTITY_CALLERS } from "#identity-service/identity-rpc.ts";
import { USER_ADMIN_CALLERS } from "#identity-service/user-admin-rpc.ts";
import { parseConfig, splitAddress } from "#kit/config/config.ts";
import { hostText, parseRedisUrl } from "#kit/config/redis-url.ts";
import { parseRoutesFile } from "#routes-file/routes-file.ts";
import { type Config as TokenConfig, configSchema as tokenConfig } from "#token-service/config.ts";
import { keyCallers } from "#token-service/key-rpc.ts";
import { securityEventCallers } from "#token-service/security-event-rpc.ts";
import { sessionCallers } from "#token-service/session-rpc.ts";
import { tokenCallers } from "#token-service/token-rpc.ts";
import { borderEdges, halfOpenEdges, openEdges } from "../support/house/network-edges.ts";

/** Everything that the image runs in a cluster, by its first argument, and what it reads. */
const SCHEMAS: Readonly<Record<string, z.ZodObject>> = {
  gateway: gatewayConfig,
  "identity-service": identityConfig,
  "token-service": tokenConfig,
  "audit-service": auditConfig,
  "event-service": eventConfig,
  "payments-service": paymentsConfig,
  migrate: schemaConfigSchema,
  "await-schema": schemaConfigSchema,
};

/** Longest time to close what is left, of `packages/service-kit/process/service-process.ts`. */
const STOP_MARGIN_MS = 3_000;
const NAME = "app.kubernetes.io/name";

const isHere = hasKubectl();
const K8S = resolve(import.meta.dirname, "..", "..", "deploy", "k8s");
/** What production's has besides. */
const ADDITIONS = { sentinels: SENTINELS, databases: FURTHER_DATABASES, siem: SIEM } as const;
const NAMES = [...OVERLAYS, "sentinels", "databases"] as const;
type Overlay = (typeof NAMES)[number];
const render = (name: Overlay) =>
  name in ADDITIONS
    ? renderProduction(K8S, ADDITIONS[name as keyof typeof ADDITIONS])
    : renderOverlay(name as (typeof OVERLAYS)[number]);
const rendered = new Map(isHere ? NAMES.map((name) => [name, render(name)]) : []);
const manifestsOf = (overlay: Overlay) => rendered.get(overlay) ?? [];

let root: string;
let trial: TrialSecret[];
beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), "gatehouse-manifests-"));
  trial = await trialSecrets(new Date());
});
afterAll(() => rmSync(root, { recursive: true }));

interface Program {
  workload: Workload;
  container: Container;
  schema: z.ZodObject;
  environment: Record<string, string>;
}

/** Every container with our image. */
function programs(overlay: Overlay): Program[] {
  const manifests = manifestsOf(overlay);
  return workloadsOf(manifests).flatMap((workload) =>
    containersOf(workload)
      .filter(({ image }) => /(^|\/)gatehouse[:@]/.test(image))
      .map((container) => {
        const schema = SCHEMAS[container.args?.[0] ?? ""];
        if (schema === undefined) throw new Error(`${workload.name} runs ${container.args}`);
        return { workload, container, schema, environment: environmentOf(manifests, container) };
      }),
  );
}

const titleOf = ({ workload, container }: Program) => `${workload.name}/${container.name}`;
const programsBut = (overlay: Overlay, ...names: string[]) =>
  programs(overlay).filter(({ container }) => !names.includes(container.args?.[0] ?? ""));

/** What the secrets of an overlay hold: those of a trial; in production what its components make. */
function secretKeys(overlay: Overlay): Map<string, string[]> {
  if (overlay === "development") {
    return new Map(trial.map(({ name, values }) => [name, Object.keys(values)]));
  }
  const manifests = manifestsOf(overlay);
  const certificates = ofKind(manifests, "Certificate").map(
    ({ spec }) => [spec.secretName, ["tls.crt", "tls.key", "ca.crt"]] as const,
  );
  const external = ofKind(manifests, "ExternalSecret").map(
    ({ spec }) =>
      [spec.target.name, spec.data.map((entry: { secretKey: string }) => entry.secretKey)] as const,
  );
  return new Map<string, string[]>([...certificates, ...external].map(([name, keys]) => [name, [...keys]]));
}

/** Puts the files of a container where a process can read them; returns the folder that stands for its root. */
function materialise(overlay: Overlay, program: Program): string {
  const folder = join(root, overlay, program.workload.name, program.container.name);
  for (const { mountPath } of program.container.volumeMounts ?? []) {
    mkdirSync(join(folder, mountPath), { recursive: true });
  }
  for (const { path, from } of mountedFiles(program.workload, program.container)) {
    // Any PEM and any key will do in production, whose secrets are nowhere.
    const values = trial.find(({ name }) => name === from.name)?.values;
    const text =
      from.kind === "ConfigMap"
        ? named(manifestsOf(overlay), "ConfigMap", from.name).data[from.key]
        : (values?.[from.key] ?? `${from.key} of ${from.name}`);
    writeFileSync(join(folder, path), text, { mode: 0o640 });
  }
  return folder;
}

/** What a program makes of its environment, with the files and folders that it sees. */
function configOf(overlay: Overlay, program: Program): Record<string, unknown> {
  const folder = materialise(overlay, program);
  const environment = Object.entries(program.environment).map(([name, value]) => [
    name,
    mountOf(program, value) === undefined ? value : join(folder, value),
  ]);
  return parseConfig(program.schema, Object.fromEntries(environment));
}

/** The secrets that a file of identity providers names. */
function filesNamedIn(overlay: Overlay, { environment, workload, container }: Program): string[] {
  const path = environment.OAUTH_PROVIDERS_FILE;
  const from = mountedFiles(workload, container).find((file) => file.path === path)?.from;
  if (path === undefined || from === undefined) return [];
  const text = named(manifestsOf(overlay), "ConfigMap", from.name).data[from.key];
  const { providers } = parse(text) as {
    providers: { clientSecretFile?: string; privateKeyFile?: string }[];
  };
  return providers.flatMap(({ clientSecretFile, privateKeyFile }) =>
    [clientSecretFile, privateKeyFile].flatMap((file) =>
      file === undefined ? [] : [resolve(dirname(path), file)],
    ),
  );
}

/** The volume that a path is in. */
function mountOf({ container }: Program, path: string) {
  return container.volumeMounts?.find(
    ({ mountPath }) => path === mountPath || path.startsWith(`${mountPath}/`),
  );
}

const isWritable = (mount: ReturnType<typeof mountOf>) => mount !== undefined && mount.readOnly !== true;

function bytesOf(quantity: string): number {
  const [, number, unit = ""] = /^(\d+)(Mi|Gi)$/.exec(quantity) ?? [];
  return Number(number) * (unit === "Gi" ? 1024 ** 3 : 1024 ** 2);
}

/** The one program of that name. */
function programNamed(overlay: Overlay, name: string): Program {
  const found = programs(overlay).find(({ container }) => container.name === name);
  if (found === undefined) throw new Error(`nothing runs ${name}`);
  return found;
}

/** `host:port` that a program calls, by the variable. */
function calls({ environment }: Program, upstreams: readonly string[]): { name: string; target: string }[] {
  const defaultPorts: Record<string, string> = { "postgres:": "5432", "http:": "80" };
  return Object.entries(environment).flatMap(([name, value]) => {
    if (/_SERVICE_ADDRESS$/.test(name)) return [{ name, target: value }];
    if (name === "ROUTES_FILE") return upstreams.map((target) => ({ name, target }));
    if (name === "REDIS_URL")
      return (parseRedisUrl(value)?.hosts ?? []).map((host) => ({ name, target: hostText(host) }));
    if (!["DATABASE_URL", "SMTP_URL"].includes(name)) return [];
    const { hostname, port, protocol } = new URL(value);
    return [{ name, target: `${hostname}:${port || defaultPorts[protocol]}` }];
  });
}

function upstreamsOf(overlay: Overlay): string[] {
  const maps = ofKind(manifestsOf(overlay), "ConfigMap");
  const routes = maps.find(({ metadata }) => metadata.name.startsWith("gateway-routes"));
  return parseRoutesFile(routes?.data["routes.yaml"]).flatMap(({ upstreams }) =>
    upstreams.map((upstream) => {
      const { hostname, port } = new URL(upstream);
      return `${hostname}:${port || 80}`;
    }),
  );
}

/** Hosts with a dot are not of this namespace. */
const isInside = (target: string) => !splitAddress(target).host.includes(".");

describe.skipIf(!isHere).each(NAMES)("%s (skipped where there is no kubectl)", (overlay) => {
  test("every service, and the schema of every database, is run", () => {
    const run = programs(overlay).map(({ container }) => container.args?.join(" "));
    const services = ["gateway", "identity-service", "token-service", "audit-service", "event-service"];
    const schemas = SERVICE_DATABASES.flatMap(({ database }) => [
      `migrate ${database}`,
      `await-schema ${database}`,
    ]);
    const example = overlay === "development" ? ["payments-service"] : [];
    expect(run.sort()).toEqual([...services, ...schemas, ...example].sort());
  });

  test("every variable is one that its reader knows", () => {
    // await-schema shares the settings of the service it is for.
    const unknown = programsBut(overlay, "await-schema").flatMap((program) =>
      Object.keys(program.environment)
        .filter((name) => !(name in program.schema.shape))
        .map((name) => `${titleOf(program)}: ${name}`),
    );
    expect(unknown).toEqual([]);
  });

  test("the configuration, with the files that are mounted, is accepted by the programs' own schemas", () => {
    for (const program of programs(overlay)) {
      expect(() => configOf(overlay, program), titleOf(program)).not.toThrow();
    }
  });

  test("no service describes itself by gRPC reflection", () => {
    const services = programs(overlay).filter(({ schema }) => "GRPC_REFLECTION" in schema.shape);
    expect(new Set(services.map(titleOf)).size).toBeGreaterThanOrEqual(3);
    for (const program of services)
      expect(configOf(overlay, program).GRPC_REFLECTION, titleOf(program)).toBe(false);
  });

  test("identity-service would not start with logins for tests", () => {
    const [program, ...others] = programs(overlay).filter(({ schema }) => "TEST_LOGINS" in schema.shape);
    if (program === undefined || others.length > 0) throw new Error("identity-service is there once");
    expect(configOf(overlay, program).TEST_LOGINS).toBe(false);
    const opened = { ...program, environment: { ...program.environment, TEST_LOGINS: "true" } };
    expect(() => configOf(overlay, opened)).toThrow("TEST_LOGINS: is for tests on one machine");
  });

  test("evidence of approvals is kept as long as the log that proves it", () => {
    const months = (service: string, variable: string) => {
      const program = programs(overlay).find(({ container }) => container.args?.[0] === service);
      if (program === undefined) throw new Error(`there is no ${service}`);
      // 0: without end.
      return Number(configOf(overlay, program)[variable]) || Number.POSITIVE_INFINITY;
    };
    const evidence = months("identity-service", "APPROVAL_RETENTION_MONTHS");
    expect(evidence).toBeGreaterThanOrEqual(months("audit-service", "AUDIT_RETENTION_MONTHS"));
  });

  test("every file comes from a Secret or a ConfigMap that is there, and every mounted file is read", () => {
    const secrets = secretKeys(overlay);
    for (const program of programs(overlay)) {
      const mounted = mountedFiles(program.workload, program.container);
      const besides = filesNamedIn(overlay, program);
      // A file on a volume that may be written is the program's own.
      const read = Object.entries(program.environment).filter(
        ([name, path]) =>
          name.endsWith("_FILE") && name in program.schema.shape && !isWritable(mountOf(program, path)),
      );
      expect(mounted.map(({ path }) => path).sort(), titleOf(program)).toEqual(
        [...read.map(([, path]) => path), ...besides].sort(),
      );
      for (const { from } of mounted.filter(({ from }) => from.kind === "Secret")) {
        expect(secrets.get(from.name), `${titleOf(program)}: Secret ${from.name}`).toContain(from.key);
      }
    }
  });

  test("no secret is made that nobody mounts, and an owner's password is the migrations' alone", () => {
    const mounted = workloadsOf(manifestsOf(overlay)).flatMap((workload) =>
      containersOf(workload).flatMap((container) =>
        mountedFiles(workload, container)
          .filter(({ from }) => from.kind === "Secret")
          .map(({ from }) => ({ ...from, workload: workload.name })),
      ),
    );
    const names = new Set(mounted.map(({ name }) => name));
    const unused = [...secretKeys(overlay).keys()].filter((name) => !names.has(name));
    expect(unused.filter((name) => !["operator-tls", "auditor-tls", "gatehouse-ca"].includes(name))).toEqual(
      [],
    );
    for (const { name, workload } of mounted.filter(({ name }) => name.endsWith("-owner"))) {
      expect(workload, name).toMatch(/^(migrate-|postgres$)/);
    }
  });

  test("ports are those that the programs listen on, and probes ask the right ones", () => {
    const names = {
      LISTEN_ADDRESS: ["grpc", "http"],
      HEALTH_ADDRESS: ["health"],
      OPERATIONS_ADDRESS: ["operations"],
    };
    for (const program of programsBut(overlay, "migrate", "await-schema")) {
      const { container, environment } = program;
      const ports = Object.fromEntries(
        (container.ports ?? []).map(({ name, containerPort }) => [name, containerPort]),
      );
      const listened = Object.entries(names).flatMap(([variable, candidates]) => {
        const name = candidates.find((candidate) => candidate in ports) ?? variable;
        return environment[variable] === undefined ? [] : [[name, splitAddress(environment[variable]).port]];
      });
      expect(ports, titleOf(program)).toEqual(Object.fromEntries(listened));
      // From outside the pod, a port of the loopback interface is no port.
      for (const variable of Object.keys(names).filter((name) => environment[name])) {
        expect(splitAddress(environment[variable] ?? "").host, `${titleOf(program)}: ${variable}`).toBe(
          "0.0.0.0",
        );
      }
      expect(container.livenessProbe.httpGet, titleOf(program)).toEqual({
        path: "/healthz",
        port: "operations",
      });
      const ready = environment.HEALTH_ADDRESS
        ? { grpc: { port: splitAddress(environment.HEALTH_ADDRESS).port } }
        : { httpGet: { path: "/readyz", port: "operations" } };
      expect(container.readinessProbe, titleOf(program)).toMatchObject(ready);
    }
  });

  test("a stop has the time it takes: preStop, drain, grace and closing fit, and are not shorter than designed", () => {
    for (const program of programsBut(overlay, "migrate", "await-schema")) {
      const { workload, container, environment, schema } = program;
      const isExample = titleOf(program).includes("payments-service");
      const drainMs = Number(environment.DRAIN_DELAY_MS);
      const graceMs = Number(environment.SHUTDOWN_GRACE_MS ?? 5_000);
      expect(schema.shape).toHaveProperty("DRAIN_DELAY_MS");
      const preStopMs = container.lifecycle.preStop.sleep.seconds * 1_000;
      const inAllMs = preStopMs + drainMs + graceMs + STOP_MARGIN_MS;
      expect(inAllMs, titleOf(program)).toBeLessThanOrEqual(
        workload.pod.terminationGracePeriodSeconds * 1_000,
      );
      expect(drainMs, titleOf(program)).toBeGreaterThanOrEqual(5_000);
      expect(graceMs, titleOf(program)).toBeGreaterThanOrEqual(isExample ? 5_000 : 25_000);
      // Clients that balance by DNS go on naming a replica: CoreDNS remembers for 30 s, and they ask every 6 s.
      const isFoundByDns = environment.HEALTH_ADDRESS !== undefined;
      expect(preStopMs, titleOf(program)).toBeGreaterThanOrEqual(5_000);
      expect(preStopMs + drainMs, titleOf(program)).toBeGreaterThanOrEqual(isFoundByDns ? 36_000 : 10_000);
    }
  });

  test("every address inside is a Service with that port, headless where calls are gRPC", () => {
    for (const program of programs(overlay)) {
      for (const { name, target } of calls(program, upstreamsOf(overlay)).filter(({ target }) =>
        isInside(target),
      )) {
        const { host, port } = splitAddress(target);
        const { spec } = named(manifestsOf(overlay), "Service", host);
        const entry = spec.ports.find((candidate: { port: number }) => candidate.port === port);
        expect(entry, `${titleOf(program)}: ${name}=${target}`).toBeDefined();
        if (name.endsWith("_SERVICE_ADDRESS")) expect(spec.clusterIP, host).toBe("None");
        const behind = workloadsOf(manifestsOf(overlay)).filter(({ labels }) =>
          selects({ matchLabels: spec.selector }, labels),
        );
        const ports = behind.flatMap(containersOf).flatMap((container) => container.ports ?? []);
        const served = ports.find((candidate) => candidate.name === entry.targetPort);
        // A headless name leads to the pods themselves.
        if (spec.clusterIP === "None") expect(served?.containerPort, host).toBe(port);
        expect(behind.length, host).toBe(1);
      }
    }
  });

  test("what calls whom in here is exactly what the network policies let through", () => {
    const wanted = programs(overlay).flatMap((program) =>
      calls(program, upstreamsOf(overlay))
        .filter(({ name, target }) => isInside(target) && name in program.schema.shape)
        .map(({ target }) => `${program.workload.labels[NAME]} -> ${target}`),
    );
    expect(openEdges(manifestsOf(overlay))).toEqual([...new Set(wanted)].sort());
    expect(halfOpenEdges(manifestsOf(overlay))).toEqual([]);
  });

  test("whom a policy lets in, the callee's own table of callers knows", () => {
    const { VERIFIERS } = configOf(overlay, programNamed(overlay, "token-service")) as TokenConfig;
    const tables: Record<string, object[]> = {
      "identity-service": [IDENTITY_CALLERS, USER_ADMIN_CALLERS],
      "token-service": [sessionCallers, keyCallers, securityEventCallers, tokenCallers(VERIFIERS)],
      "audit-service": [AUDIT_CALLERS, AUDIT_QUERY_CALLERS],
      "event-service": [WEBHOOK_CALLERS, SIGNAL_CALLERS],
    };
    const edges = openEdges(manifestsOf(overlay)).map((edge) => edge.split(/ -> |:/));
    const inward = borderEdges(manifestsOf(overlay)).map((edge) => edge.split(/.*\/| -> |:/).filter(Boolean));
    for (const [caller = "", callee = ""] of [...edges, ...inward.filter(([peer]) => peer !== "*")]) {
      const known = tables[callee]?.flatMap((table) => Object.values(table).flat());
      if (known !== undefined) expect(known, `${caller} -> ${callee}`).toContain(caller);
    }
  });

  test("a link in a mail, a token's issuer and the way in name a host that the gateway serves", () => {
    const [gateway, identity, token] = ["gateway", "identity-service", "token-service"].map(
      (name) => programs(overlay).find(({ workload }) => workload.name === name)?.environment ?? {},
    );
    const hosts = gateway?.ALLOWED_HOSTS?.split(",");
    expect(token?.TOKEN_ISSUER).toBe(identity?.PUBLIC_ORIGIN);
    expect(hosts).toContain(new URL(identity?.PUBLIC_ORIGIN ?? "").host);
    for (const { spec } of ofKind(manifestsOf(overlay), "HTTPRoute")) {
      expect(hosts).toEqual(expect.arrayContaining(spec.hostnames));
      const [{ backendRefs }] = spec.rules;
      const { ports } = named(manifestsOf(overlay), "Service", backendRefs[0].name).spec;
      expect(ports.map(({ port }: { port: number }) => port)).toContain(backendRefs[0].port);
    }
  });

  test("a migration has a Job for each version: its name says the image's", () => {
    for (const { workload, container } of programs(overlay).filter(
      ({ workload }) => workload.kind === "Job",
    )) {
      const tag = /:([^@]+)/.exec(container.image)?.[1] ?? "";
      expect(workload.name).toBe(`migrate-${container.args?.[1]}-${tag.replaceAll(".", "-")}`);
      const { service, ownerRole, database } =
        SERVICE_DATABASES.find((one) => one.database === container.args?.[1]) ?? {};
      const own = programs(overlay).find((program) => program.workload.name === service);
      const at = (url = "") => new URL(url.replace("postgres:", "http:"));
      const owner = at(environmentOf(manifestsOf(overlay), container).DATABASE_URL);
      expect([owner.username, owner.pathname]).toEqual([ownerRole, `/${database}`]);
      expect(owner.host).toBe(at(own?.environment.DATABASE_URL).host);
    }
  });

  test("identity-service has the memory that its hashes take, and shares login limits among all there may be", () => {
    const identity = programNamed(overlay, "identity-service");
    const { HASH_CONCURRENCY, ARGON2_MEMORY_KIB, THROTTLE_REPLICAS } = configOf(
      overlay,
      identity,
    ) as IdentityConfig;
    const limitMib = Number(/^(\d+)Mi$/.exec(identity.container.resources.limits.memory)?.[1]);
    // As in deploy/k8s/base/identity-service/deployment.yaml, with 115 MB at rest.
    expect(limitMib).toBeGreaterThanOrEqual(
      (115 + (2 * (HASH_CONCURRENCY ?? 64) * ARGON2_MEMORY_KIB) / 1024) * 1.3,
    );
    const { maxReplicas } = named(manifestsOf(overlay), "HorizontalPodAutoscaler", "identity-service").spec;
    expect(THROTTLE_REPLICAS).toBeGreaterThanOrEqual(maxReplicas);
  });

  test("gateways share rate limits among all there may be", () => {
    const { RATE_LIMIT_REPLICAS } = configOf(overlay, programNamed(overlay, "gateway")) as GatewayConfig;
    const { maxReplicas } = named(manifestsOf(overlay), "HorizontalPodAutoscaler", "gateway").spec;
    expect(RATE_LIMIT_REPLICAS).toBeGreaterThanOrEqual(maxReplicas);
  });

  test("what the gateway spools is on a claim that outlives the pod", () => {
    const gateway = programNamed(overlay, "gateway");
    const { spec } = gateway.workload.manifest;
    expect(spec.persistentVolumeClaimRetentionPolicy).toEqual({
      whenDeleted: "Retain",
      whenScaled: "Retain",
    });
    const claims = spec.volumeClaimTemplates.map(({ metadata }: Manifest) => metadata.name);
    const mount = gateway.container.volumeMounts?.find(({ name }) => claims.includes(name));
    expect(mount?.readOnly).not.toBe(true);
    // Below the mount: at its top, file systems have folders of their own, which the spool would take for a process'.
    expect(dirname(gateway.environment.AUDIT_SPOOL_DIRECTORY ?? "")).toBe(mount?.mountPath);
    expect(gateway.container.readinessProbe.httpGet.path).toBe("/readyz");
    const { AUDIT_SPOOL_MAX_BYTES } = configOf(overlay, gateway) as GatewayConfig;
    const claim = spec.volumeClaimTemplates.find(({ metadata }: Manifest) => metadata.name === mount?.name);
    // As much again for the file system itself and for files that are kept as damaged.
    expect(bytesOf(claim.spec.resources.requests.storage)).toBeGreaterThanOrEqual(2 * AUDIT_SPOOL_MAX_BYTES);
  });

  test("the gateway has the memory that its open connections take", () => {
    const gateway = programNamed(overlay, "gateway");
    const { MAX_CONNECTIONS } = configOf(overlay, gateway) as GatewayConfig;
    // 110 MB at rest, and 20 kB a connection.
    const needed = (110e6 + MAX_CONNECTIONS * 20e3) * 1.3;
    expect(bytesOf(gateway.container.resources.limits.memory)).toBeGreaterThanOrEqual(needed);
  });

  test("checkpoints outside the database are in one file that every replica of audit-service finds again", () => {
    const audit = programNamed(overlay, "audit-service");
    const path = audit.environment.CHECKPOINT_FILE;
    if (overlay === "production") expect(path).toBeDefined();
    if (path === undefined) return;
    const mount = mountOf(audit, path);
    expect(isWritable(mount)).toBe(true);
    const volume = audit.workload.pod.volumes.find(({ name }: { name: string }) => name === mount?.name);
    const claim = named(
      manifestsOf(overlay),
      "PersistentVolumeClaim",
      volume?.persistentVolumeClaim?.claimName,
    );
    expect(claim.spec.accessModes).toEqual(["ReadWriteMany"]);
  });
});

test.skipIf(!isHere)("production: what crosses the border is what the picture has, and nothing else", () => {
  const services = ["gateway", "identity-service", "token-service", "audit-service", "event-service"];
  const operations = {
    gateway: 9080,
    "identity-service": 9081,
    "token-service": 9082,
    "audit-service": 9083,
    "event-service": 9085,
  };
  const pods = [...services, ...SERVICE_DATABASES.map(({ database }) => `migrate-${database}`)];
  expect(borderEdges(manifestsOf("production"))).toEqual(
    [
      "envoy-gateway-system/* -> gateway:8080",
      "payments/payments-service -> token-service:50052",
      ...Object.entries(operations).map(([name, port]) => `monitoring/* -> ${name}:${port}`),
      ...pods.flatMap((pod) =>
        ["UDP", "TCP"].flatMap((protocol) =>
          ["kube-system/kube-dns", "169.254.20.10/32"].map((dns) => `${pod} -> ${dns}:53/${protocol}`),
        ),
      ),
      ...services.map((name) => `${name} -> observability/opentelemetry-collector:4318/TCP`),
      "identity-service -> 192.0.2.40/32:443/TCP",
      ...["0.0.0.0/0", "2000::/3"].map((network) => `event-service -> ${network}:443/TCP`),
      "gateway -> payments/payments-service:8081/TCP",
      ...["identity", "token", "audit", "event"].flatMap((database, index) =>
        [`${database}-service`, `migrate-${database}`].map(
          (pod) => `${pod} -> 192.0.2.1${index}/32:5432/TCP`,
        ),
      ),
      "gateway -> 192.0.2.20/32:6379/TCP",
      "identity-service -> 192.0.2.20/32:6379/TCP",
      "token-service -> 192.0.2.20/32:6379/TCP",
      "identity-service -> 192.0.2.30/32:587/TCP",
    ].sort(),
  );
});

test.skipIf(!isHere)(
  "with further databases every program that opens one of a kind knows all of them",
  () => {
    const read = (name: string, variable: string) =>
      programs("databases")
        .filter(({ container }) => container.args?.join(" ") === name)
        .map((program) => configOf("databases", program)[variable]);
    const logs = [
      { number: 1, url: "postgres://audit-1.example.internal:5432/audit" },
      { number: 2, url: "postgres://audit-2.example.internal:5432/audit" },
    ];
    const parts = [{ number: 1, schema: "part1", url: "postgres://token-1.example.internal:5432/token" }];
    for (const name of ["audit-service", "await-schema audit", "migrate audit"])
      expect(read(name, "LOGS_FILE"), name).toEqual([logs]);
    for (const name of ["token-service", "await-schema token", "migrate token"])
      expect(read(name, "PARTS_FILE"), name).toEqual([parts]);
    expect(read("gateway", "AUDIT_LOGS")).toEqual([[0, 1, 2]]);
    // A change restarts the services.
    const maps = ofKind(manifestsOf("databases"), "ConfigMap").map(({ metadata }) => metadata.name);
    expect(maps.filter((name) => /^(?:audit-logs|token-parts)-[bcdfghkmt2-9]{10}$/.test(name))).toHaveLength(
      2,
    );
  },
);

test.skipIf(!isHere)("with sentinels their port is open as well, and nothing else", () => {
  const without = borderEdges(manifestsOf("production"));
  expect(borderEdges(manifestsOf("sentinels")).filter((edge) => !without.includes(edge))).toEqual(
    ["gateway", "identity-service", "token-service"].map((name) => `${name} -> 192.0.2.20/32:26379/TCP`),
  );
});

test.skipIf(!isHere)(
  "production: certificates carry the names that peers look for, for a day at most",
  () => {
    const leaves = ofKind(manifestsOf("production"), "Certificate").filter(({ spec }) => spec.isCA !== true);
    expect(leaves.map(({ metadata }) => metadata.name).sort()).toEqual(
      ["audit-service", "event-service", "gateway", "identity-service", "operator", "token-service"].sort(),
    );
    for (const { metadata, spec } of leaves) {
      expect(spec).toMatchObject({
        secretName: `${metadata.name}-tls`,
        uris: [`spiffe://gatehouse/${metadata.name}${metadata.name === "operator" ? "/first" : ""}`],
        duration: "24h",
        usages: expect.arrayContaining(["server auth", "client auth"]),
      });
    }
  },
);
