import { join } from "node:path";
import { Client } from "@grpc/grpc-js";
import { certificateFiles } from "#deploy/local/certificates.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { toMetadata } from "#kit/rpc/rpc-metadata.ts";
import { channelCredentials } from "#kit/rpc/rpc-tls.ts";
import { TokenServiceService } from "#proto/gatehouse/token/v1/token_service.ts";
import { endChild, forkServer } from "../support/bench.ts";
import { cpuUs } from "../support/processes.ts";
import { certificateOf, issueTokens } from "../support/tokens.ts";
import { runMany } from "../support/workbench.ts";
import type { Figure, Subject } from "./figure.ts";
import { besideOf, eachSystem, oursOf } from "./forwarded.ts";

const CALLS = 8_000;
const IN_PARALLEL = 32;
const identity = (value: Buffer) => value;

/** CPU of the answering process alone. */
export const verifyToken: Figure = {
  name: "verify-token",
  shows: "VerifyToken of a known token over gRPC, beside an empty echo over the same mutual TLS",
  quantities: [{ name: "", unit: "µs CPU", aims: [{ of: "echo", atMost: 1.2 }] }],
  async prepare(bench) {
    const subjects = await eachSystem(bench, async (system) => {
      const [token = ""] = await issueTokens(system, 1);
      const request = TokenServiceService.verifyToken.requestSerialize({ token });
      const files = certificateFiles(join(system.home, "tls"), "token-service");
      const echo = await forkServer("echo.ts", files.certificate, files.key, files.authority);
      bench.atEnd(() => endChild(echo.child));
      const certificate = certificateOf(system, "gateway");
      bench.atEnd(async () => certificate.close());
      const subjectOf = (port: number, path: string, pid: number): Subject["sample"] => {
        const credentials = channelCredentials(certificate, "token-service");
        const options = { "grpc.ssl_target_name_override": "token-service" };
        const client = new Client(`127.0.0.1:${port}`, credentials, options);
        bench.atEnd(async () => client.close());
        const call = () =>
          new Promise<void>((resolve, reject) => {
            const deadline = { deadline: Date.now() + 10_000 };
            client.makeUnaryRequest(
              path,
              identity,
              identity,
              request,
              toMetadata(newCallContext()),
              deadline,
              (error) => (error === null ? resolve() : reject(error)),
            );
          });
        return async () => {
          const before = cpuUs(pid);
          await runMany(CALLS, IN_PARALLEL, call);
          return { values: { "": (cpuUs(pid) - before) / CALLS } };
        };
      };
      const { path } = TokenServiceService.verifyToken;
      return [
        oursOf(system, subjectOf(system.ports.TOKEN_PORT, path, system.pids["token-service"])),
        besideOf(system, "empty echo", subjectOf(echo.port, "/bench.Echo/Echo", echo.child.pid ?? 0)),
      ];
    });
    return { subjects };
  },
};
