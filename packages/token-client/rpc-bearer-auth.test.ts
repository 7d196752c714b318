import {
  Client,
  credentials,
  Metadata,
  Server,
  ServerCredentials,
  type ServiceError,
  status,
} from "@grpc/grpc-js";
import { afterAll, beforeAll, expect, test } from "vitest";
import { fromRpcError } from "#kit/rpc/rpc-errors.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { Verification } from "./principal.ts";
import { principalInMetadata, rpcBearerAuth } from "./rpc-bearer-auth.ts";

const at = new Date(0);
const user: Verification = {
  kind: "active",
  principal: {
    userId: "u",
    role: "USER",
    sessionId: "s",
    tokenId: "t",
    keyId: "k",
    kind: "user",
    clientId: "",
    scopes: [],
    amr: ["pwd"],
    acr: 1,
    authTime: at,
    issuedAt: at,
    expiresAt: at,
  },
};
const bytes = (value: Buffer) => value;
const method = (path: string) => ({
  path,
  requestStream: false as const,
  responseStream: false as const,
  requestSerialize: bytes,
  requestDeserialize: bytes,
  responseSerialize: bytes,
  responseDeserialize: bytes,
});
const service = {
  open: method("/t.S/Open"),
  any: method("/t.S/Any"),
  admin: method("/t.S/Admin"),
  forgotten: method("/t.S/Forgotten"),
};

const addresses: (string | undefined)[] = [];
let client: Client;
let server: Server;

beforeAll(async () => {
  const interceptor = rpcBearerAuth({
    verifier: {
      verify(token, clientIp) {
        addresses.push(clientIp);
        if (token === "unknowable") throw new DomainError("service_unavailable");
        return token === "user"
          ? user
          : { kind: "inactive", reason: token === "expired" ? "expired" : "revoked" };
      },
      nowMs: () => 0,
      acceptsBound: false,
    },
    clientIp: (metadata, peer) =>
      peer.startsWith("127.0.0.1:") ? String(metadata.get("x-client")[0]) : peer,
    methods: { "/t.S/Open": "public", "/t.S/Any": "authenticated", "/t.S/Admin": { roles: ["ADMIN"] } },
  });
  server = new Server({ interceptors: [interceptor] });
  const handler = (call: { metadata: Metadata }, callback: (error: null, value: Buffer) => void) =>
    callback(null, Buffer.from(principalInMetadata(call.metadata)?.userId ?? "nobody"));
  server.addService(service, { open: handler, any: handler, admin: handler, forgotten: handler });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    );
  });
  client = new Client(`127.0.0.1:${port}`, credentials.createInsecure());
});

afterAll(() => {
  client.close();
  server.forceShutdown();
});

function call(path: string, ...authorization: string[]): Promise<string | ServiceError> {
  const metadata = new Metadata();
  metadata.set("x-client", "192.0.2.1");
  for (const value of authorization) metadata.add("authorization", value);
  return new Promise((resolve) => {
    client.makeUnaryRequest(path, bytes, bytes, Buffer.alloc(0), metadata, (error, value) =>
      resolve(error ?? String(value)),
    );
  });
}

test.each([
  ["/t.S/Any", ["Bearer user"], "u"],
  ["/t.S/Open", [], "nobody"],
])("%s with %j reaches the handler, which knows %s", async (path, authorization, expected) => {
  expect(await call(path, ...authorization)).toBe(expected);
});

test.each([
  ["/t.S/Any", [], status.UNAUTHENTICATED, "token_missing"],
  ["/t.S/Any", ["Bearer revoked"], status.UNAUTHENTICATED, "token_invalid"],
  ["/t.S/Any", ["Bearer expired"], status.UNAUTHENTICATED, "token_expired"],
  ["/t.S/Any", ["Bearer unknowable"], status.UNAVAILABLE, "service_unavailable"],
  ["/t.S/Admin", ["Bearer user"], status.PERMISSION_DENIED, "forbidden"],
  ["/t.S/Forgotten", ["Bearer user"], status.PERMISSION_DENIED, "forbidden"],
])("%s with %j is refused with %i", async (path, authorization, code, expected) => {
  const failure = await call(path, ...authorization);
  expect(failure).toMatchObject({ code });
  expect(fromRpcError(failure)).toMatchObject({ code: expected });
});

test("a client has the share of its network, by the address that the service says", async () => {
  addresses.length = 0;
  await call("/t.S/Any", "Bearer user");
  expect(addresses).toEqual(["192.0.2.1"]);
});
