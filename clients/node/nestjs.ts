import type { IncomingMessage } from "node:http";
import { createParamDecorator, HttpException } from "@nestjs/common";
import type { AssuranceDemand } from "#token-client/assurance.ts";
import { clientAddress } from "#token-client/client-address.ts";
import { httpRefusal } from "#token-client/http-refusal.ts";
import type { Principal, RequestVerifier } from "#token-client/principal.ts";
import { admitRequest, principalOfRequest, type RouteDemand } from "#token-client/request-principal.ts";
import type { RouteAuth } from "#token-client/route-auth.ts";

/** Of Express, or of Fastify, which has that of Node.js in `raw`. */
type NestRequest = (IncomingMessage | { raw: IncomingMessage }) & { ip?: string | undefined };

/** What is used of Nest's `ExecutionContext`. */
export interface GuardedContext {
  getType(): string;
  getClass(): { name: string; prototype: object };
  getHandler(): { name: string };
  switchToHttp(): { getRequest(): unknown; getResponse(): unknown };
}

export interface NestBearerAuthOptions {
  verifier: RequestVerifier;
  /**
   * The address of the client, never of a proxy: one network may have a share of the calls of token-service. Default: `request.ip`,
   * which goes by the `trust proxy` or `trustProxy` of the platform, unless it is of a private network.
   */
  clientIp?: (request: { ip?: string | undefined }) => string | undefined;
}

type Demand = "public" | RouteDemand;

const ofControllers = new WeakMap<object, Demand>();
/** By name, because a decorator above `@Auth` may replace the function. Keyed by prototype. */
const ofMethods = new WeakMap<object, Map<string | symbol, Demand>>();

/** Goes before a route or a controller, and says who may call it. That of the route counts before that of its controller. */
export function Auth(auth: "public"): NestDecorator;
export function Auth(auth: RouteDemand["auth"], assurance?: AssuranceDemand): NestDecorator;
export function Auth(auth: RouteAuth, assurance?: AssuranceDemand): NestDecorator {
  if (auth === "public" && assurance !== undefined)
    throw new Error("a public route demands no level of assurance");
  const demand = auth === "public" ? auth : { auth, assurance };
  return (target, name) => {
    if (name === undefined) return void ofControllers.set(target, demand);
    ofMethods.set(target, new Map(ofMethods.get(target)).set(name, demand));
  };
}

export type NestDecorator = (target: object, name?: string | symbol) => void;

/**
 * A global guard, on Express and Fastify. A route without `@Auth` is refused as a defect: 500, and an error in the log that names it.
 * A refusal is an `HttpException` whose `cause` is the `DomainError`; its headers are set.
 */
export class BearerAuthGuard {
  readonly #options: NestBearerAuthOptions;

  constructor(options: NestBearerAuthOptions) {
    this.#options = options;
  }

  /** @throws {HttpException} if the call is refused. */
  async canActivate(context: GuardedContext): Promise<true> {
    const { verifier, clientIp = ({ ip }) => clientAddress(ip) } = this.#options;
    const demand = demandOf(context);
    if (demand === "public") return true;
    const http = context.switchToHttp();
    const request = http.getRequest() as NestRequest;
    const message = messageOf(request);
    try {
      await admitRequest(message, verifier, demand, clientIp(request));
    } catch (error) {
      const refusal = httpRefusal(error, message.headers.authorization);
      if (refusal === undefined) throw error;
      const response = http.getResponse() as { header(name: string, value: string): unknown };
      for (const [name, value] of refusal.headers) response.header(name, value);
      throw new HttpException(JSON.parse(refusal.body.toString()), refusal.statusCode, { cause: error });
    }
    return true;
  }
}

function demandOf(context: GuardedContext): Demand {
  const [controller, method] = [context.getClass(), context.getHandler()];
  const name = `${controller.name}.${method.name}`;
  if (context.getType() !== "http") throw new Error(`BearerAuthGuard guards HTTP alone, and not ${name}`);
  const demand = demandOfMethod(controller.prototype, method) ?? ofControllers.get(controller);
  if (demand === undefined) throw new Error(`${name} has no @Auth, so nobody may call it`);
  return demand;
}

/** The method may be inherited. */
function demandOfMethod(prototype: object | null, method: object): Demand | undefined {
  if (prototype === null) return undefined;
  for (const [name, demand] of ofMethods.get(prototype) ?? [])
    if (Reflect.get(prototype, name) === method) return demand;
  return demandOfMethod(Object.getPrototypeOf(prototype), method);
}

const messageOf = (request: NestRequest) => ("rawHeaders" in request ? request : request.raw);

/** @throws if the route is public. */
export function principalIn(request: NestRequest): Principal {
  return principalOfRequest(messageOf(request));
}

/** The caller, as a parameter of a route's method. */
export const CurrentPrincipal: () => ParameterDecorator = createParamDecorator((_data, context) =>
  principalIn(context.switchToHttp().getRequest() as NestRequest),
);
