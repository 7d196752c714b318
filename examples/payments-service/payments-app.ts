import fastify, { type FastifyInstance, type FastifyReply, LogController } from "fastify";
import { v7 as uuidv7 } from "uuid";
import { DomainError } from "../../service-kit/errors.ts";
import { fieldProblems } from "../../service-kit/field-problems.ts";
import type { Logger } from "../../service-kit/logger.ts";
import { parseStrictJson } from "../../service-kit/strict-json.ts";
import { fastifyBearerAuth, principalIn } from "../../token-client/fastify-bearer-auth.ts";
import type { TokenVerifier } from "../../token-client/principal.ts";
import type { RouteAuth } from "../../token-client/route-auth.ts";
import { failure, success } from "./answers.ts";
import { type Payment, PaymentOrder } from "./payment.ts";
import type { PaymentStore } from "./payment-store.ts";

export interface PaymentsDeps {
  verifier: Pick<TokenVerifier, "verify">;
  store: PaymentStore;
  logger: Logger;
  now(): Date;
  /** Responses then close the connection. */
  isDraining(): boolean;
}

const BODY_LIMIT_BYTES = 16 * 1024;
const HTTP_CREATED = 201;
const PAYERS: RouteAuth = { roles: ["USER", "ADMIN"] };
const ADMINS: RouteAuth = { roles: ["ADMIN"] };

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

  await app.register(fastifyBearerAuth, { verifier });

  app.get("/payments", { config: { auth: PAYERS } }, async (request) => {
    const { userId, role } = principalIn(request);
    const payments = role === "ADMIN" ? store.list() : store.list(userId);
    return success({ payments }, "Payments, newest first.");
  });

  app.post("/payments", { config: { auth: PAYERS } }, async (request, reply) => {
    const { userId } = principalIn(request);
    const payment: Payment = { id: uuidv7(), ...orderIn(request.body), userId, createdAt: now() };
    store.add(payment);
    reply.code(HTTP_CREATED);
    return success({ payment }, "The payment is ordered.");
  });

  app.get<{ Params: { id: string } }>("/payments/:id", { config: { auth: PAYERS } }, async (request) => {
    const { userId, role } = principalIn(request);
    const payment = store.find(request.params.id);
    // The existence of other users' payments is not revealed.
    if (payment === undefined || (role !== "ADMIN" && payment.userId !== userId))
      throw new DomainError("not_found");
    return success({ payment }, "The payment.");
  });

  app.delete<{ Params: { id: string } }>("/payments/:id", { config: { auth: ADMINS } }, async (request) => {
    if (!store.remove(request.params.id)) throw new DomainError("not_found");
    return success({}, "The payment is deleted.");
  });
  return app;
}

function orderIn(body: unknown): PaymentOrder {
  const result = PaymentOrder.safeParse(body, { reportInput: true });
  if (result.success) return result.data;
  const fields = fieldProblems(result.error.issues, "body");
  throw new DomainError("validation_failed", undefined, { fields });
}
