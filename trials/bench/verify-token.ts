/**
 * What one `VerifyToken` of a repeated token costs token-service, in CPU, against an empty grpc-js echo over the same
 * mutual TLS, in the same run: rounds of both, one after the other. The server runs in a process of its own.
 *
 *   npm run trial -- verify-token
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { Client, Server, type ServiceDefinition } from "@grpc/grpc-js";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { toMetadata } from "#kit/rpc/rpc-metadata.ts";
import { channelCredentials, serverCredentials } from "#kit/rpc/rpc-tls.ts";
import { TokenServiceService } from "#proto/gatehouse/token/v1/token_service.ts";
import { createTestCertificates, type TestCertificates } from "#tests/support/system/certificates.ts";
import { startTokenServer } from "#tests/support/system/token-server.ts";
import { logIn, startTokenReplica } from "#tests/support/system/token-service.ts";
import { quantile, runMany, startCpu, startWorkbench } from "./support/workbench.ts";

const ROUNDS = 7;
const CALLS = 10_000;
const IN_PARALLEL = 32;

const identity = (value: Buffer) => value;
const echoService = {
  echo: {
    path: "/bench.Echo/Echo",
    requestStream: false,
    responseStream: false,
    requestSerialize: identity,
    requestDeserialize: identity,
    responseSerialize: identity,
    responseDeserialize: identity,
  },
} satisfies ServiceDefinition;

if (process.argv[2] === "server") await serve();
else await measure();

async function serve(): Promise<void> {
  const workbench = await startWorkbench();
  const certificates = await createTestCertificates();
  const replica = await startTokenReplica(await workbench.connect("token-service"));
  const tokenServer = await startTokenServer(replica, certificates);
  const echo = new Server();
  echo.addService(echoService, {
    echo: (call: { request: Buffer }, callback: (error: null, value: Buffer) => void) =>
      callback(null, call.request),
  });
  const echoPort = await new Promise<number>((resolve, reject) => {
    echo.bindAsync("127.0.0.1:0", serverCredentials(certificates.of("token-service")), (error, port) =>
      error === null ? resolve(port) : reject(error),
    );
  });
  const { accessToken } = await logIn(replica, "01936d3e-7a10-7cc0-a51b-4fd2f8a3c001");
  let cpu = startCpu();
  process.on("message", (message) => {
    if (message === "start") cpu = startCpu();
    else process.send?.({ cpuUs: cpu() });
  });
  process.on("disconnect", async () => {
    replica.stop();
    await workbench.stop();
    await certificates.remove();
    process.exit(0);
  });
  process.send?.({
    ports: { token: tokenServer.port, echo: echoPort },
    tls: certificates.environmentOf("gateway"),
    accessToken,
  });
}

async function measure(): Promise<void> {
  const server = fork(import.meta.filename, ["server"]);
  const [{ ports, tls, accessToken }] = (await once(server, "message")) as [
    {
      ports: { token: number; echo: number };
      tls: ReturnType<TestCertificates["environmentOf"]>;
      accessToken: string;
    },
  ];
  const { ProcessCertificate, tlsFilesOf } = await import("#kit/rpc/rpc-tls.ts");
  const certificate = new ProcessCertificate(tlsFilesOf(tls));
  const connect = (port: number) =>
    new Client(`127.0.0.1:${port}`, channelCredentials(certificate, "token-service"), {
      "grpc.ssl_target_name_override": "token-service",
    });
  const clients = { token: connect(ports.token), echo: connect(ports.echo) };
  const { requestSerialize } = TokenServiceService.verifyToken;
  const request = requestSerialize({ token: accessToken });
  const context = newCallContext();
  const call = (client: Client, path: string) =>
    new Promise<void>((resolve, reject) => {
      client.makeUnaryRequest(
        path,
        identity,
        identity,
        request,
        toMetadata(context),
        { deadline: Date.now() + 5_000 },
        (error) => (error === null ? resolve() : reject(error)),
      );
    });
  const kinds = {
    echo: () => call(clients.echo, echoService.echo.path),
    token: () => call(clients.token, TokenServiceService.verifyToken.path),
  };
  const cpuUs: Record<"echo" | "token", number[]> = { echo: [], token: [] };
  const rate: Record<"echo" | "token", number[]> = { echo: [], token: [] };
  for (let round = -1; round < ROUNDS; round += 1) {
    for (const kind of ["echo", "token"] as const) {
      server.send("start");
      const seconds = await runMany(CALLS, IN_PARALLEL, kinds[kind]);
      const used = await cpuOf(server);
      if (round < 0) continue; // the first round warms up
      cpuUs[kind].push(used / CALLS);
      rate[kind].push(CALLS / seconds);
    }
  }
  for (const kind of ["echo", "token"] as const) {
    const name = kind === "echo" ? "empty grpc-js echo" : "VerifyToken, repeated token";
    console.log(
      `${name}: ${quantile(cpuUs[kind], 0.5).toFixed(1)} µs CPU a call, ${quantile(rate[kind], 0.5).toFixed(0)} calls/s`,
    );
  }
  const ratios = cpuUs.token.map((value, index) => value / (cpuUs.echo[index] ?? Number.NaN));
  console.log(
    `ratio of CPU, median of ${ROUNDS} rounds: ${quantile(ratios, 0.5).toFixed(2)} (aim: at most 1.25)`,
  );
  for (const client of Object.values(clients)) client.close();
  certificate.close();
  server.disconnect();
  await once(server, "exit");
}

async function cpuOf(server: ChildProcess): Promise<number> {
  server.send("stop");
  const [{ cpuUs }] = (await once(server, "message")) as [{ cpuUs: number }];
  return cpuUs;
}
