import fastify, { type FastifyInstance, type FastifyReply, LogController } from "fastify";
import type { z } from "zod";
import type { Logger } from "#kit/telemetry/logger.ts";
import { DomainError } from "#kit/values/errors.ts";
import { fieldProblems } from "#kit/values/field-problems.ts";
import { parseStrictJson } from "#kit/values/strict-json.ts";
import { uuidv7 } from "#kit/values/uuid-v7.ts";
import { fastifyBearerAuth, principalIn } from "#token-client/fastify-bearer-auth.ts";
import type { Principal, RequestVerifier } from "#token-client/principal.ts";
import type { RouteAuth } from "#token-client/route-auth.ts";
import { failure, success } from "./answers.ts";
import {
  ApprovalId,
  IdempotencyKey,
  MAX_TO_ANYBODY_MINOR,
  Payee,
  type Payment,
  PaymentOrder,
} from "./payment.ts";
import type { PaymentStore } from "./payment-store.ts";

export interface PaymentsDeps {
  verifier: RequestVerifier;
  store: PaymentStore;
  logger: Logger;
  now(): Date;
  /** Responses then close the connection. */
  isDraining(): boolean;
}

const BODY_LIMIT_BYTES = 16 * 1024;
const HTTP_CREATED = 201;
const PAYERS: RouteAuth = { roles: ["USER", "ADMIN"] };
/** Programs by what they were granted. */
const READERS: RouteAuth = { ...PAYERS, scopes: ["payments:read"] };
const WRITERS: RouteAuth = { ...PAYERS, scopes: ["payments:write"] };
const ADMINS: RouteAuth = { roles: ["ADMIN"] };

/** A program owns what it has ordered: its principal names no user. */
function ownerOf({ kind, userId, clientId }: Principal): string {
  return kind === "client" ? clientId : userId;
}

/** An example of an upstream that verifies tokens itself. */
export async function buildPaymentsApp({
  verifier,
  store,
  logger,
  now,
  isDraining,
}: PaymentsDeps): Promise<FastifyInstance> {
  const app = fastify({
    bodyLimit: BODY_LIMIT_BYTES,
    exposeHeadRoutes: true,
    return503OnClosing: false,
    requestTimeout: 10_000,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: ({ headers }) => String(headers["x-request-id"] ?? uuidv7()),
    frameworkErrors: (thrown, request, reply: FastifyReply) => {
      const { status, body } = failure(thrown, request.id);
      reply.code(status).send(body);
    },
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    "application/json",
    { parseAs: "buffer" },
    async (_request: unknown, body: Buffer) => parseStrictJson(body),
  );
  app.setErrorHandler((thrown, request, reply) => {
    const { status, body } = failure(thrown, request.id);
    if (status >= 500) logger.error({ err: thrown, requestId: request.id }, "request failed");
    reply.code(status).send(body);
  });
  app.setNotFoundHandler(() => {
    throw new DomainError("not_found");
  });

  app.addHook("onSend", async (_request, reply) => {
    if (isDraining()) reply.header("connection", "close");
  });

  await app.register(fastifyBearerAuth, { verifier, onRefusal: "next" });

  app.get("/payments", { config: { auth: READERS } }, async (request) => {
    const principal = principalIn(request);
    const payments = principal.role === "ADMIN" ? store.list() : store.list(ownerOf(principal));
    return success({ payments }, "Payments, newest first.");
  });

  app.post("/payments", { config: { auth: WRITERS } }, async (request, reply) => {
    const userId = ownerOf(principalIn(request));
    const order = inputAs(PaymentOrder, request.body, "body");
    if (order.amount > MAX_TO_ANYBODY_MINOR && !store.payees(userId).has(order.payee)) throw unknownPayee();
    const key = inputAs(IdempotencyKey.optional(), request.headers["idempotency-key"], "Idempotency-Key");
    const approval = inputAs(ApprovalId.optional(), request.headers["x-approval-id"], "X-Approval-Id");
    // One approval is one payment, whatever key comes with it.
    const names = [
      ...(approval === undefined ? [] : [`approval ${approval}`]),
      ...(key === undefined ? [] : [`key ${key}`]),
    ];
    const payment = store.add({ id: uuidv7(), ...order, userId, createdAt: now() }, names);
    if (!isSameOrder(payment, order)) throw new DomainError("conflict");
    reply.code(HTTP_CREATED);
    return success({ payment }, "The payment is ordered.");
  });

  app.get<{ Params: { id: string } }>("/payments/:id", { config: { auth: READERS } }, async (request) => {
    const principal = principalIn(request);
    const payment = store.find(request.params.id);
    // The existence of other users' payments is not revealed.
    if (payment === undefined || (principal.role !== "ADMIN" && payment.userId !== ownerOf(principal)))
      throw new DomainError("not_found");
    return success({ payment }, "The payment.");
  });

  app.delete<{ Params: { id: string } }>("/payments/:id", { config: { auth: ADMINS } }, async (request) => {
    if (!store.remove(request.params.id)) throw new DomainError("not_found");
    return success({}, "The payment is deleted.");
  });

  app.get("/payees", { config: { auth: PAYERS } }, async (request) => {
    const payees = [...store.payees(principalIn(request).userId)].map((name) => ({ name }));
    return success({ payees }, "Your payees.");
  });

  app.post("/payees", { config: { auth: PAYERS } }, async (request, reply) => {
    const payee = inputAs(Payee, request.body, "body");
    if (!store.addPayee(principalIn(request).userId, payee.name)) throw new DomainError("conflict");
    reply.code(HTTP_CREATED);
    return success({ payee }, "The payee is saved.");
  });
  return app;
}

function inputAs<T>(schema: z.ZodType<T>, input: unknown, name: string): T {
  const result = schema.safeParse(input, { reportInput: true });
  if (result.success) return result.data;
  const fields = fieldProblems(result.error.issues, name);
  throw new DomainError("validation_failed", undefined, { fields });
}

function unknownPayee(): DomainError {
  const message = "must be one of your payees (/payees) for a payment above 100.00";
  return new DomainError("validation_failed", undefined, {
    fields: [{ field: "payee", code: "unknown_payee", message }],
  });
}

function isSameOrder(payment: Payment, order: PaymentOrder): boolean {
  const { amount, currency, payee, reference } = order;
  return (
    payment.amount === amount &&
    payment.currency === currency &&
    payment.payee === payee &&
    payment.reference === reference
  );
}
