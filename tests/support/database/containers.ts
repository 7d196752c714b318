import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { GenericContainer, type StartedTestContainer, Wait } from "testcontainers";
import { parse } from "yaml";
import { randomPassword } from "#deploy/local/private-file.ts";
import type { TestServer } from "./postgres-test-server.ts";

/** Where the images of the servers that services run with are named. */
const KUSTOMIZATION = join("deploy", "k8s", "overlays", "development", "kustomization.yaml");
const ROOT = resolve(import.meta.dirname, "..", "..", "..");
const POSTGRES_PORT = 5432;
const REDIS_PORT = 6379;
/** As of the embedded server: data that nobody needs after the tests. */
const SETTINGS = { max_connections: "200", fsync: "off", full_page_writes: "off", synchronous_commit: "off" };

/** The servers of one test run, in containers. */
export interface ContainerServers {
  postgres: TestServer;
  redisUrl: string;
}

/**
 * The image that the manifests run under this name, such as `postgres:18.1`.
 * @throws if they name none, or no tag: without one an image is another one tomorrow.
 */
export function imageOf(
  name: string,
  kustomization = readFileSync(join(ROOT, KUSTOMIZATION), "utf8"),
): string {
  const { images = [] } = parse(kustomization) as {
    images?: { name: string; newName?: string; newTag?: string }[];
  };
  const image = images.find((candidate) => candidate.name === name);
  if (image?.newTag === undefined) throw new Error(`${KUSTOMIZATION} names no tag of the image ${name}`);
  return `${image.newName ?? name}:${image.newTag}`;
}

/** @throws if there is no container engine, or no image. */
export async function startContainers(): Promise<ContainerServers> {
  const password = randomPassword();
  const [postgres, redis] = await startAll([
    new GenericContainer(imageOf("postgres"))
      .withEnvironment({ POSTGRES_PASSWORD: password })
      .withCommand([
        "postgres",
        ...Object.entries(SETTINGS).flatMap(([key, value]) => ["-c", `${key}=${value}`]),
      ])
      .withTmpFs({ "/var/lib/postgresql": "rw" })
      .withExposedPorts(POSTGRES_PORT)
      // The first one is of the server that only makes the databases.
      .withWaitStrategy(Wait.forLogMessage(/database system is ready to accept connections/, 2)),
    new GenericContainer(imageOf("valkey"))
      .withCommand(["valkey-server", "--save", ""])
      .withExposedPorts(REDIS_PORT)
      .withWaitStrategy(Wait.forLogMessage(/Ready to accept connections/)),
  ]);
  if (postgres === undefined || redis === undefined) throw new Error("a container did not start");
  const server = {
    host: postgres.getHost(),
    port: postgres.getMappedPort(POSTGRES_PORT),
    username: "postgres",
    password,
  };
  return {
    postgres: {
      server,
      shared: false,
      stop: async () => void (await Promise.all([postgres.stop(), redis.stop()])),
    },
    redisUrl: `redis://${redis.getHost()}:${redis.getMappedPort(REDIS_PORT)}`,
  };
}

/** If one does not start, the others are stopped. */
async function startAll(containers: readonly GenericContainer[]): Promise<StartedTestContainer[]> {
  const starts = await Promise.allSettled(containers.map((container) => container.start()));
  const running = starts.filter((start) => start.status === "fulfilled").map(({ value }) => value);
  const failure = starts.find((start) => start.status === "rejected");
  if (failure === undefined) return running;
  await Promise.all(running.map((container) => container.stop()));
  throw new Error(
    `TEST_INFRA=containers needs a container engine that Docker's clients find (DOCKER_HOST), with the images ${imageOf("postgres")} and ${imageOf("valkey")}: ${failure.reason}`,
    { cause: failure.reason },
  );
}
