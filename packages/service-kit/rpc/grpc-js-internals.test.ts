import { once } from "node:events";
import net from "node:net";
import {
  Client,
  credentials,
  type MethodDefinition,
  makeClientConstructor,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type sendUnaryData,
} from "@grpc/grpc-js";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import {
  definitionOf,
  forgetFailedBinding,
  hasGone,
  LIMITED_CONNECT_TIME,
  limitConnectTime,
  sessionOf,
} from "./grpc-js-internals.ts";

limitConnectTime();
afterEach(() => void vi.restoreAllMocks());

/** Whether a channel with these options gives its attempts to connect a limit. */
async function isLimited(options: Record<string, unknown>): Promise<boolean> {
  const connect = vi.spyOn(net, "connect");
  const client = new Client("127.0.0.1:1", credentials.createInsecure(), options);
  client.getChannel().getConnectivityState(true);
  await expect.poll(() => connect.mock.calls.length).toBeGreaterThan(0);
  client.close();
  return (connect.mock.calls as unknown as [{ signal?: AbortSignal }][]).some(([{ signal }]) => signal);
}

test("a channel that asks for it connects within a limit, and other channels of the process as before", async () => {
  expect(await isLimited({ [LIMITED_CONNECT_TIME]: 1 })).toBe(true);
  vi.restoreAllMocks();
  expect(await isLimited({})).toBe(false);
});

const bytes = (value: Buffer) => value;
const ECHO: MethodDefinition<Buffer, Buffer> = {
  path: "/test.Echo/Say",
  requestStream: false,
  responseStream: false,
  requestSerialize: bytes,
  requestDeserialize: bytes,
  responseSerialize: bytes,
  responseDeserialize: bytes,
};

function newServer(): Server {
  const server = new Server();
  onTestFinished(() => server.forceShutdown());
  return server;
}

function bind(server: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.bindAsync(`127.0.0.1:${port}`, ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    );
  });
}

test("a served call has a session, and has gone when its stream has ended", async () => {
  const server = newServer();
  const served = Promise.withResolvers<ServerUnaryCall<Buffer, Buffer>>();
  const say = (call: ServerUnaryCall<Buffer, Buffer>, _answer: sendUnaryData<Buffer>) => served.resolve(call);
  server.addService({ say: ECHO }, { say });
  const port = await bind(server, 0);
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure());
  onTestFinished(() => client.close());
  const answered = vi.fn();
  const sent = client.makeUnaryRequest(ECHO.path, bytes, bytes, Buffer.alloc(0), answered);
  const call = await served.promise;
  expect([hasGone(call), sessionOf(call)?.closed]).toEqual([false, false]);
  sent.cancel();
  await expect.poll(() => hasGone(call)).toBe(true);
  expect(sessionOf(call)).toBeUndefined();
});

test("a port whose binding has failed can be bound again once that is forgotten", async () => {
  const taken = net.createServer().listen(0, "127.0.0.1");
  await once(taken, "listening");
  const { port } = taken.address() as net.AddressInfo;
  const server = newServer();
  await expect(bind(server, port)).rejects.toThrow("EADDRINUSE");
  await new Promise((resolve) => taken.close(resolve));
  await expect(bind(server, port)).rejects.toThrow("EADDRINUSE");
  forgetFailedBinding(server);
  expect(await bind(server, port)).toBe(port);
});

test("a client's method has its definition, and another function has none", () => {
  const Echo = makeClientConstructor({ say: ECHO }, "Echo");
  const { path, requestSerialize, responseDeserialize } = definitionOf(Echo.prototype.say as object);
  expect({ path, requestSerialize, responseDeserialize }).toEqual({
    path: ECHO.path,
    requestSerialize: bytes,
    responseDeserialize: bytes,
  });
  expect(() => definitionOf(bytes)).toThrow("no definition");
});
