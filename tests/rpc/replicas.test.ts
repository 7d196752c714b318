import dns from "node:dns";
import net from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { callUnary, createRpcClient, openServerStream } from "#kit/rpc/rpc-client.ts";
import { type Implementation, RpcServer } from "#kit/rpc/rpc-server.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import {
  TokenServiceClient,
  type TokenServiceServer,
  TokenServiceService,
} from "#proto/gatehouse/token/v1/token_service.ts";
import { openBlackHole } from "../support/system/black-hole.ts";
import { createTestCertificates, type TestCertificates } from "../support/system/certificates.ts";
import { openEdge } from "../support/system/faulty-edge.ts";
import { freePort } from "../support/system/free-port.ts";

const NAME = "replicas.test";
const logger = pino({ level: "silent" });

let certificates: TestCertificates;
let port: number;
/** What the name's addresses are now, as a resolver says. */
let addresses: string[];
let client: TokenServiceClient;
const cleanUps: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  certificates = await createTestCertificates();
});

afterAll(() => certificates.remove());

beforeEach(async () => {
  port = await freePort();
  addresses = [];
  const lookup = async (name: string) => {
    if (name !== NAME || addresses.length === 0) throw new Error(`${name} is not known`);
    return addresses.map((address) => ({ address, family: 4 }));
  };
  vi.spyOn(dns.promises, "lookup").mockImplementation(lookup as unknown as typeof dns.promises.lookup);
  client = createRpcClient(TokenServiceClient, {
    address: `${NAME}:${port}`,
    service: "token-service",
    certificate: certificates.of("gateway"),
  });
});

afterEach(async () => {
  client.close();
  await Promise.all(cleanUps.splice(0).map((cleanUp) => cleanUp()));
  vi.restoreAllMocks();
});

interface Replica {
  server: RpcServer;
  address: string;
  calls: number;
  streams: number;
}

interface ReplicaOptions {
  streamAgeMs?: { min: number; max: number };
  answer?: () => Promise<void>;
  /** Where it serves, if that is not where its address leads. */
  ownPort?: number;
}

async function startReplica(
  address: string,
  { streamAgeMs, answer = () => sleep(2), ownPort = port }: ReplicaOptions = {},
): Promise<Replica> {
  const server = new RpcServer({
    address: `${address}:${ownPort}`,
    certificate: certificates.of("token-service"),
    logger,
    metrics: createMetrics("test"),
    ...(streamAgeMs !== undefined && { streamAgeMs }),
  });
  const replica: Replica = { server, address, calls: 0, streams: 0 };
  const methods: Implementation<TokenServiceServer> = {
    async verifyToken() {
      replica.calls += 1;
      await answer();
      return { active: false, reason: 0, principal: undefined, expiresInMs: 0 };
    },
    async *watchRevocations(_request, { signal }) {
      replica.streams += 1;
      while (!signal.aborted) {
        yield {
          revocations: [],
          sequence: 1,
          caughtUp: true,
          tip: "",
          readAt: undefined,
          keepS: 0,
          elapsedMs: 0,
          rules: undefined,
          part: undefined,
        };
        await sleep(10);
      }
    },
    async getJwks() {
      return { jwksJson: "{}", maxAgeS: 1, issuer: "" };
    },
  };
  const callers = { verifyToken: ["gateway"], watchRevocations: ["gateway"], getJwks: [] };
  server.add(TokenServiceService, callers, methods, ["watchRevocations"]);
  await server.listen();
  cleanUps.push(() => server.close(0));
  return replica;
}

const call = () => callUnary(client, client.verifyToken, { token: "t" }, newCallContext({ budgetMs: 2_000 }));

/** Calls without a pause, four at a time, until it is stopped. Not idempotent ones: none is repeated by its policy. */
function startLoad(): { stop: () => Promise<unknown[]>; done: () => number } {
  const failures: unknown[] = [];
  let isStopped = false;
  let done = 0;
  const caller = async () => {
    while (!isStopped) {
      await call().catch((error: unknown) => failures.push(error));
      done += 1;
      await sleep(3);
    }
  };
  const callers = Promise.all(Array.from({ length: 4 }, caller));
  return {
    done: () => done,
    stop: async () => {
      isStopped = true;
      await callers;
      return failures;
    },
  };
}

test("a replica that is added gets its share of the calls", async () => {
  const first = [await startReplica("127.0.0.1"), await startReplica("127.0.0.2")];
  addresses = ["127.0.0.1", "127.0.0.2"];
  const load = startLoad();
  await expect.poll(() => Math.min(...first.map(({ calls }) => calls))).toBeGreaterThan(20);
  const third = await startReplica("127.0.0.3");
  addresses.push("127.0.0.3");
  await expect.poll(() => third.calls).toBeGreaterThan(0);
  const [before, thirdBefore] = [load.done(), third.calls];
  await expect.poll(() => load.done() - before).toBeGreaterThan(300);
  const share = (third.calls - thirdBefore) / (load.done() - before);
  expect(share).toBeGreaterThan(0.25);
  expect(share).toBeLessThan(0.42);
  expect(await load.stop()).toEqual([]);
});

test("a replica that stopped costs no call while its name still leads to an address that answers nothing", async () => {
  const [leaving, staying] = [await startReplica("127.0.0.1"), await startReplica("127.0.0.2")];
  addresses = ["127.0.0.1", "127.0.0.2"];
  const load = startLoad();
  await expect.poll(() => Math.min(leaving.calls, staying.calls)).toBeGreaterThan(20);
  await leaving.server.close(5_000);
  const hole = await openBlackHole("127.0.0.1", port);
  cleanUps.push(hole.close);
  const lookUps = () => vi.mocked(dns.promises.lookup).mock.calls.length;
  const before = lookUps();
  await expect.poll(lookUps, { timeout: 60_000 }).toBeGreaterThan(before + 2);
  expect(await load.stop()).toEqual([]);
  await hole.close();
  const back = await startReplica("127.0.0.1");
  const again = startLoad();
  await expect.poll(() => back.calls).toBeGreaterThan(0);
  expect(await again.stop()).toEqual([]);
});

test("calls that may be repeated are, also the fifty that are under way at a replica that is killed", async () => {
  let gate = Promise.resolve();
  const answer = () => gate;
  const ownPort = await freePort();
  const replicas = [
    await startReplica("127.0.0.1", { answer, ownPort }),
    await startReplica("127.0.0.2", { answer }),
  ];
  const way = await openEdge(ownPort, port);
  cleanUps.push(way.close);
  addresses = ["127.0.0.1", "127.0.0.2"];
  const repeating = createRpcClient(TokenServiceClient, {
    address: `${NAME}:${port}`,
    service: "token-service",
    certificate: certificates.of("gateway"),
    idempotentMethods: ["gatehouse.token.v1.TokenService/VerifyToken"],
  });
  cleanUps.push(async () => repeating.close());
  const ask = () =>
    callUnary(repeating, repeating.verifyToken, { token: "t" }, newCallContext({ budgetMs: 60_000 }));
  const counts = () => replicas.map(({ calls }) => calls);
  while (Math.min(...counts()) === 0) await ask();
  const before = counts();
  const { promise, resolve: answerAll } = Promise.withResolvers<void>();
  gate = promise;
  const calls = Array.from({ length: 100 }, ask);
  const underWay = () => counts().map((count, index) => count - (before[index] ?? 0));
  await expect.poll(underWay).toEqual([50, 50]);
  await way.set("refused");
  answerAll();
  expect((await Promise.allSettled(calls)).filter(({ status }) => status === "rejected")).toEqual([]);
});

test("a client that knows only addresses that answer nothing finds the new ones as soon as the name has them", async () => {
  const holes = await Promise.all(["127.0.0.1", "127.0.0.2"].map((address) => openBlackHole(address, port)));
  cleanUps.push(...holes.map((hole) => () => hole.close()));
  addresses = ["127.0.0.1", "127.0.0.2"];
  await expect(call()).rejects.toMatchObject({ code: "service_unavailable" });
  await startReplica("127.0.0.3");
  addresses = ["127.0.0.3"];
  await expect
    .poll(() =>
      call().then(
        () => "answered",
        () => "failed",
      ),
    )
    .toBe("answered");
});

test("an attempt to connect that nobody answers is given up, and another made", async () => {
  const hole = await openBlackHole("127.0.0.1", port);
  cleanUps.push(hole.close);
  addresses = ["127.0.0.1"];
  const failures = await Promise.all(
    Array.from({ length: 3 }, () => call().catch((error: unknown) => error)),
  );
  expect(failures.every((failure) => (failure as { code?: string }).code === "service_unavailable")).toBe(
    true,
  );
  const channel = client.getChannel();
  // TRANSIENT_FAILURE is only reached by an attempt that has ended: the kernel's own limit is two minutes.
  await expect.poll(() => channel.getConnectivityState(true)).toBe(3);
  await hole.close();
});

test("a process that accepts connections and says nothing is given up too", async () => {
  const { createServer } = await import("node:net");
  const mute = createServer((socket) => socket.on("error", () => undefined).unref()).unref();
  await new Promise<void>((resolve) => mute.listen(port, "127.0.0.1", resolve));
  cleanUps.push(async () => mute.close());
  addresses = ["127.0.0.1"];
  await expect(call()).rejects.toMatchObject({ code: "service_unavailable" });
  await expect.poll(() => client.getChannel().getConnectivityState(true)).toBe(3);
});

test("an attempt to connect is not given up by a process that stood still meanwhile", async () => {
  await startReplica("127.0.0.1");
  addresses = ["127.0.0.1"];
  const { connect } = net;
  vi.spyOn(net, "connect").mockImplementationOnce(((...args: Parameters<typeof connect>) => {
    const socket = connect(...args);
    // Longer than an attempt may take; the kernel connects meanwhile.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_500);
    return socket;
  }) as typeof connect);
  await call();
  expect(net.connect).toHaveBeenCalledTimes(1);
});

test("a replica that is unready gets no calls, loses none, and gets them again when it is ready", async () => {
  const [unready, ready] = [await startReplica("127.0.0.1"), await startReplica("127.0.0.2")];
  addresses = ["127.0.0.1", "127.0.0.2"];
  const load = startLoad();
  await expect.poll(() => Math.min(unready.calls, ready.calls)).toBeGreaterThan(50);
  await unready.server.setServing(false);
  const isLeft = async () => {
    const [calls, done] = [unready.calls, load.done()];
    await expect.poll(() => load.done() - done).toBeGreaterThan(50);
    return unready.calls === calls;
  };
  await expect.poll(isLeft).toBe(true);
  const [calls, done] = [unready.calls, load.done()];
  await expect.poll(() => load.done() - done).toBeGreaterThan(200);
  expect(unready.calls).toBe(calls);
  await unready.server.setServing(true);
  await expect.poll(() => unready.calls).toBeGreaterThan(calls + 50);
  expect(await load.stop()).toEqual([]);
});

test("streams without an end move to a replica that was added", async () => {
  const first = await startReplica("127.0.0.1", { streamAgeMs: { min: 100, max: 200 } });
  addresses = ["127.0.0.1"];
  const endings: unknown[] = [];
  let isStopped = false;
  const open = () => {
    if (isStopped) return;
    const stream = openServerStream(
      client,
      client.watchRevocations,
      { afterSequence: 0, tip: "" },
      newCallContext({ budgetMs: 60_000 }),
    );
    stream.on("data", () => undefined);
    stream.on("error", (error) => endings.push(error));
    stream.on("end", open);
  };
  open();
  await expect.poll(() => first.streams).toBeGreaterThan(2);
  const second = await startReplica("127.0.0.2", { streamAgeMs: { min: 100, max: 200 } });
  addresses.push("127.0.0.2");
  await expect.poll(() => second.streams).toBeGreaterThan(0);
  expect(endings).toEqual([]);
  isStopped = true;
});

test.each(["127.0.0.1", NAME])(
  "a client of %s that was there before its server finds it when it comes",
  async (host) => {
    addresses = ["127.0.0.1"];
    const early = createRpcClient(TokenServiceClient, {
      address: `${host}:${port}`,
      service: "token-service",
      certificate: certificates.of("gateway"),
    });
    cleanUps.push(async () => early.close());
    const ask = () =>
      callUnary(early, early.verifyToken, { token: "t" }, newCallContext({ budgetMs: 60_000 }));
    await expect(ask()).rejects.toMatchObject({ code: "service_unavailable" });
    const heard: unknown[] = [];
    let isOver = false;
    const open = () => {
      if (isOver) return;
      const stream = openServerStream(
        early,
        early.watchRevocations,
        { afterSequence: 0, tip: "" },
        newCallContext({ budgetMs: 60_000 }),
      );
      stream.on("data", (message) => heard.push(message));
      stream.on("error", () => setTimeout(open, 100).unref());
    };
    open();
    await sleep(3_000);
    await startReplica("127.0.0.1");
    await expect.poll(() => heard.length).toBeGreaterThan(0);
    await expect
      .poll(() =>
        ask().then(
          () => "answered",
          () => "failed",
        ),
      )
      .toBe("answered");
    isOver = true;
  },
  60_000,
);

test("replicas that were all unready, and have no address in the meantime, are called as soon as they serve again", async () => {
  const replicas = [await startReplica("127.0.0.1"), await startReplica("127.0.0.2")];
  addresses = ["127.0.0.1", "127.0.0.2"];
  const isAnswered = () => call().then(Boolean, () => false);
  await expect.poll(isAnswered).toBe(true);
  addresses = [];
  await Promise.all(replicas.map(({ server }) => server.setServing(false)));
  await expect.poll(isAnswered).toBe(false);
  const lookUps = vi.mocked(dns.promises.lookup).mock.calls.length;
  await expect.poll(() => vi.mocked(dns.promises.lookup).mock.calls.length).toBeGreaterThan(lookUps + 1);
  await Promise.all(replicas.map(({ server }) => server.setServing(true)));
  await expect.poll(isAnswered).toBe(true);
});
