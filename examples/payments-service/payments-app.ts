import fastify, { type FastifyInstance, type FastifyRequest, LogController } from "fastify";
import { v7 as uuidv7 } from "uuid";
import { DomainError } from "../../service-kit/errors.ts";
import { fieldProblems } from "../../service-kit/field-problems.ts";
import type { Logger } from "../../service-kit/logger.ts";
import { parseStrictJson } from "../../service-kit/strict-json.ts";
import type { Role, TokenVerifier } from "../../token-client/principal.ts";
import { failure, success } from "./answers.ts";
import { type Payment, PaymentOrder } from "./payment.ts";
import type { PaymentStore } from "./payment-store.ts";
import { verifiedPrincipal } from "./verified-principal.ts";

export interface PaymentsDeps {
  verifier: Pick<TokenVerifier, "verify">;
  store: PaymentStore;
  logger: Logger;
  now(): Date;
}

const BODY_LIMIT_BYTES = 16 * 1024;
const HTTP_CREATED = 201;
const PAYERS: readonly Role[] = ["USER", "ADMIN"];

/** The payments API, not yet listening. An example of an upstream: it asks token-service itself who calls. */
export function buildPaymentsApp({ verifier, store, logger, now }: PaymentsDeps): FastifyInstance {
  const app = fastify({
    bodyLimit: BODY_LIMIT_BYTES,
    exposeHeadRoutes: true,
    return503OnClosing: false,
    requestTimeout: 10_000,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: ({ headers }) => String(headers["x-request-id"] ?? uuidv7()),
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

  /** The caller, if its role may do this. */
  async function callerOf({ headers }: FastifyRequest, roles: readonly Role[]) {
    const principal = await verifiedPrincipal(verifier, headers);
    if (!roles.includes(principal.role)) throw new DomainError("forbidden");
    return principal;
  }

  app.get("/payments", async (request) => {
    const { userId, role } = await callerOf(request, PAYERS);
    const payments = role === "ADMIN" ? store.list() : store.list(userId);
    return success({ payments }, "Payments, newest first.");
  });

  app.post("/payments", async (request, reply) => {
    const { userId } = await callerOf(request, PAYERS);
    const payment: Payment = { id: uuidv7(), ...orderIn(request.body), userId, createdAt: now() };
    store.add(payment);
    reply.code(HTTP_CREATED);
    return success({ payment }, "The payment is ordered.");
  });

  app.get<{ Params: { id: string } }>("/payments/:id", async (request) => {
    const { userId, role } = await callerOf(request, PAYERS);
    const payment = store.find(request.params.id);
    // Someone else's payment is not there.
    if (payment === undefined || (role !== "ADMIN" && payment.userId !== userId))
      throw new DomainError("not_found");
    return success({ payment }, "The payment.");
  });

  app.delete<{ Params: { id: string } }>("/payments/:id", async (request) => {
    await callerOf(request, ["ADMIN"]);
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
