import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import {
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServerWritableStream,
  type sendUnaryData,
} from "@grpc/grpc-js";
import express from "express";
import fastify from "fastify";
import { expressBearerAuth, principalIn as principalInExpress } from "./express.ts";
import { fastifyBearerAuth, principalIn } from "./fastify.ts";
import { principalInMetadata, rpcBearerAuth } from "./grpc.ts";
import { createVerifier, DomainError, type Principal, type TokenVerifier } from "./index.ts";
import type { NestDecorator } from "./nestjs.ts";

/** A service behind the package, for `clients/conformance`. Its argument: `fastify`, `express`, `nestjs-express` or `nestjs-fastify`. */

const ANYBODY = { roles: ["USER", "ADMIN"], scopes: ["payments:read"] };
const ADMIN = { roles: ["ADMIN"] };
const FRESH = { acr: 1, maxAgeSeconds: 300 } as const;

const { env } = process;
const verifier = createVerifier({
  address: env.TOKEN_SERVICE_ADDRESS ?? "",
  tls: { certFile: env.TLS_CERT_FILE ?? "", keyFile: env.TLS_KEY_FILE ?? "", caFile: env.TLS_CA_FILE ?? "" },
  audience: env.TOKEN_AUDIENCE,
  acceptsIssuer: env.ACCEPTS_ISSUER === "true",
  ...(env.CALL_TIMEOUT_MS && { callTimeoutMs: Number(env.CALL_TIMEOUT_MS) }),
});

function callerOf({ kind, userId, sessionId, role, clientId, scopes = [] }: Principal) {
  return { kind, userId, sessionId, role, clientId, scopes };
}

function readiness(): { status: number; body: object } {
  try {
    verifier.assertReady();
    return { status: 200, body: {} };
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    return { status: 503, body: { error: { code: error.code } } };
  }
}

async function listenFastify(verifier: TokenVerifier): Promise<string> {
  const app = fastify();
  await app.register(fastifyBearerAuth, { verifier });
  app.get("/whoami", { config: { auth: ANYBODY } }, async (request) => callerOf(principalIn(request)));
  app.get("/admin", { config: { auth: ADMIN } }, async () => ({}));
  app.get("/fresh", { config: { auth: ANYBODY, assurance: FRESH } }, async () => ({}));
  app.get("/ready", { config: { auth: "public" } }, async (_request, reply) => {
    const { status, body } = readiness();
    return reply.code(status).send(body);
  });
  return app.listen({ host: "127.0.0.1", port: 0 });
}

async function listenExpress(verifier: TokenVerifier): Promise<string> {
  const app = express();
  app.get("/whoami", expressBearerAuth({ verifier, auth: ANYBODY }), (request, response) => {
    response.json(callerOf(principalInExpress(request)));
  });
  app.get("/admin", expressBearerAuth({ verifier, auth: ADMIN }), (_request, response) => {
    response.json({});
  });
  app.get(
    "/fresh",
    expressBearerAuth({ verifier, auth: ANYBODY, assurance: FRESH }),
    (_request, response) => {
      response.json({});
    },
  );
  app.get("/ready", (_request, response) => {
    const { status, body } = readiness();
    response.status(status).json(body);
  });
  const server = app.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Only the conformance of these doors installs NestJS. Its decorators are called, because Node.js does not know their syntax. */
async function listenNest(verifier: TokenVerifier, platform: string): Promise<string> {
  const { Controller, Get, HttpException, Module } = await import("@nestjs/common");
  const { NestFactory } = await import("@nestjs/core");
  const { Auth, BearerAuthGuard, CurrentPrincipal } = await import("./nestjs.ts");
  class Routes {
    whoami(principal: Principal) {
      return callerOf(principal);
    }
    admin() {
      return {};
    }
    fresh() {
      return {};
    }
    ready() {
      const { status, body } = readiness();
      if (status !== 200) throw new HttpException(body, status, { cause: undefined });
      return body;
    }
  }
  class Forgotten {
    unlisted() {
      return {};
    }
  }
  const decorate = (controller: typeof Routes | typeof Forgotten, name: string, ...auth: NestDecorator[]) => {
    for (const one of auth) one(controller.prototype, name);
    const own = Reflect.get(controller.prototype, name);
    // As a decorator between the two, of a cache or a trace: what it puts in place of the method is guarded as the method.
    const value = (...args: unknown[]) => own(...args);
    Object.defineProperty(controller.prototype, name, { value });
    Get(name)(controller.prototype, name, { value });
  };
  decorate(Routes, "whoami");
  decorate(Routes, "admin", Auth(ADMIN));
  decorate(Routes, "fresh", Auth(ANYBODY, FRESH));
  decorate(Routes, "ready", Auth("public"));
  decorate(Forgotten, "unlisted");
  CurrentPrincipal()(Routes.prototype, "whoami", 0);
  Auth(ANYBODY)(Routes);
  for (const controller of [Routes, Forgotten]) Controller()(controller);
  class App {}
  Module({ controllers: [Routes, Forgotten] })(App);
  const adapter =
    platform === "fastify"
      ? new (await import("@nestjs/platform-fastify")).FastifyAdapter()
      : new (await import("@nestjs/platform-express")).ExpressAdapter();
  const app = await NestFactory.create(App, adapter, { logger: false });
  app.useGlobalGuards(new BearerAuthGuard({ verifier }));
  await app.listen(0, "127.0.0.1");
  return app.getUrl();
}

/** By the framework of the argument. */
async function listenHttp(verifier: TokenVerifier, framework = ""): Promise<string> {
  if (framework.startsWith("nestjs-")) return listenNest(verifier, framework.slice("nestjs-".length));
  return framework === "express" ? listenExpress(verifier) : listenFastify(verifier);
}

const SERVICE = "/gatehouse.conformance.v1.ConformanceService";
const methodOf = (name: string, responseStream: boolean) => ({
  path: `${SERVICE}/${name}`,
  requestStream: false,
  responseStream,
  requestSerialize: () => Buffer.alloc(0),
  requestDeserialize: () => ({}),
  responseSerialize: (text: string) =>
    Buffer.from(new BinaryWriter().tag(1, WireType.LengthDelimited).string(text).finish()),
  responseDeserialize: String,
});

async function listenRpc(verifier: TokenVerifier): Promise<string> {
  const methods = {
    [`${SERVICE}/WhoAmI`]: ANYBODY,
    [`${SERVICE}/Admin`]: ADMIN,
    [`${SERVICE}/Watch`]: ANYBODY,
  };
  const server = new Server({ interceptors: [rpcBearerAuth({ verifier, methods })] });
  const whoAmI = ({ metadata }: ServerUnaryCall<unknown, string>, answer: sendUnaryData<string>) => {
    const principal = principalInMetadata(metadata);
    answer(null, JSON.stringify(principal && callerOf(principal)));
  };
  server.addService(
    {
      WhoAmI: methodOf("WhoAmI", false),
      Admin: methodOf("Admin", false),
      Watch: methodOf("Watch", true),
      Unlisted: methodOf("Unlisted", false),
    },
    {
      WhoAmI: whoAmI,
      Admin: whoAmI,
      Unlisted: whoAmI,
      Watch(call: ServerWritableStream<unknown, string>) {
        const principal = principalInMetadata(call.metadata);
        call.write(JSON.stringify(principal && callerOf(principal)));
        call.end();
      },
    },
  );
  return new Promise((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) =>
      error === null ? resolve(`127.0.0.1:${port}`) : reject(error),
    );
  });
}

/** All of Node.js reads the time from `Date`; `performance.now()` stays. */
let wallJumpMs = 0;
const wallNowMs = Date.now;
Date.now = () => wallNowMs() + wallJumpMs;

const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  wallJumpMs += Number(/^jump (-?\d+)$/.exec(line)?.[1]);
  process.stdout.write("jumped\n");
});
lines.on("close", () => process.exit());
const addresses = {
  http: await listenHttp(verifier, process.argv[2]),
  grpc: await listenRpc(verifier),
};
process.stdout.write(`${JSON.stringify(addresses)}\n`);
