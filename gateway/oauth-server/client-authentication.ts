import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { DomainError } from "#kit/values/errors.ts";
import type { ClientAuthentication } from "#proto/gatehouse/identity/v1/client_service.ts";
import { clientIp } from "../edge/request/caller.ts";
import { isForm } from "../edge/request/request-body.ts";
import { basicCredentials } from "./introspection-clients.ts";

const ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

const text = (max: number) => z.string().max(max).default("");
/** Of a form, beside the parameters of its endpoint. One without a value counts as absent (RFC 6749 §3.2). */
const clientForm = z.object({
  client_id: text(100),
  client_assertion_type: text(100),
  client_assertion: text(4_096),
  client_secret: text(1_024),
});

/** Without any proof nothing else is read. @throws {DomainError} `invalid_client`. */
export async function refuseWithoutProof(request: FastifyRequest): Promise<void> {
  const mayHaveProof = basicCredentials(request.headers.authorization) !== undefined || isForm(request);
  if (!mayHaveProof) throw new DomainError("invalid_client");
}

/**
 * `client_secret_basic` or `private_key_jwt`, not both (RFC 6749 §2.3).
 * @throws {DomainError} `invalid_client`, `bad_request`.
 */
export function clientAuthentication(request: FastifyRequest): ClientAuthentication {
  assertOneProof(request);
  const { client_assertion: assertion, client_assertion_type: type } = parsedForm(request);
  const { authorization } = request.headers;
  const ip = clientIp(request);
  if (assertion !== "") {
    if (type !== ASSERTION_TYPE) throw new DomainError("bad_request", "client_assertion_type is not known.");
    return { proof: { $case: "assertion", value: assertion }, clientIp: ip };
  }
  const given = basicCredentials(authorization);
  if (given === undefined) throw new DomainError("invalid_client");
  return { proof: { $case: "secret", value: { clientId: given.id, secret: given.secret } }, clientIp: ip };
}

/** RFC 6749 §2.3. @throws {DomainError} `bad_request`. */
export function assertOneProof(request: FastifyRequest): void {
  const { client_assertion: assertion, client_secret: inBody } = parsedForm(request);
  const ways = [request.headers.authorization ?? "", assertion, inBody].filter((way) => way !== "");
  if (ways.length > 1) throw new DomainError("bad_request", "A client proves itself in one way.");
}

function parsedForm({ body }: FastifyRequest): z.output<typeof clientForm> {
  const { data } = clientForm.safeParse(body ?? {});
  if (data === undefined) throw new DomainError("bad_request", "A parameter of the client is too long.");
  return data;
}

/** RFC 7521 §4.2: a `client_id` beside the proof names the same client. @throws {DomainError} `invalid_client`. */
export function assertSameClient(request: FastifyRequest, clientId: string): void {
  const { client_id: named } = parsedForm(request);
  if (named !== "" && named !== clientId) throw new DomainError("invalid_client");
}

/** Written to the audit log. */
export function clientActor({ clientId, credentialId }: { clientId: string; credentialId: string }) {
  return { userId: clientId, role: "CLIENT", sessionId: credentialId };
}
