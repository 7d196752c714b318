/** An empty grpc-js server over the same mutual TLS as ours: `node trials/bench/support/echo.ts <certificate> <key> <authority>`. */
import { Server, type ServiceDefinition } from "@grpc/grpc-js";
import { ProcessCertificate, serverCredentials } from "#kit/rpc/rpc-tls.ts";

const [certFile = "", keyFile = "", caFile = ""] = process.argv.slice(2);
const identity = (value: Buffer) => value;
const service = {
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

const server = new Server();
server.addService(service, {
  echo: (call: { request: Buffer }, callback: (error: null, value: Buffer) => void) =>
    callback(null, call.request),
});
const credentials = serverCredentials(new ProcessCertificate({ certFile, keyFile, caFile }));
server.bindAsync("127.0.0.1:0", credentials, (error, port) => {
  if (error !== null) throw error;
  process.send?.(port);
});
process.on("disconnect", () => process.exit());
