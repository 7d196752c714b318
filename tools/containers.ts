import { GenericContainer, type StartedTestContainer, Wait } from "testcontainers";
import { randomPassword } from "../deploy/local/private-file.ts";
import type { TestServer } from "../tests/support/database/postgres-test-server.ts";

const POSTGRES_PORT = 5432;
const REDIS_PORT = 6379;
/** As of the embedded server: data that nobody needs after the tests. */
const SETTINGS = { max_connections: "200", fsync: "off", full_page_writes: "off", synchronous_commit: "off" };

/** The servers of one test run, in containers. */
export interface ContainerServers {
  postgres: TestServer;
  redisUrl: string;
}

/** Of these images. @throws if there is no container engine, or no image. */
export async function startContainers(images: {
  postgres: string;
  valkey: string;
}): Promise<ContainerServers> {
  const password = randomPassword();
  const [postgres, redis] = await startAll([
    new GenericContainer(images.postgres)
      .withEnvironment({ POSTGRES_PASSWORD: password })
      .withCommand([
        "postgres",
        ...Object.entries(SETTINGS).flatMap(([key, value]) => ["-c", `${key}=${value}`]),
      ])
      .withTmpFs({ "/var/lib/postgresql": "rw" })
      .withExposedPorts(POSTGRES_PORT)
      // The first one is of the server that only makes the databases.
      .withWaitStrategy(Wait.forLogMessage(/database system is ready to accept connections/, 2)),
    new GenericContainer(images.valkey)
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
    `TEST_INFRA=containers needs a container engine that Docker's clients find (DOCKER_HOST), with the images of the manifests: ${failure.reason}`,
    { cause: failure.reason },
  );
}
