import { z } from "zod";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { SigningKeyState } from "#proto/gatehouse/token/v1/key_service.ts";
import { timeField } from "../auth/answer-fields.ts";
import type { Backends } from "../backends/backends.ts";
import { success } from "../edge/answers/envelope.ts";
import type { NoteReading } from "../edge/audit.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { intLike, textLike } from "../routing/fields.ts";
import { answersWith } from "../routing/route-docs.ts";
import type { AdminPolicy } from "../routing/route-policy.ts";

/** Of the call's second: a service that is away must not keep the answer about the others. */
const PROBE_BUDGET_MS = 700;

const STATES = {
  next: SigningKeyState.NEXT,
  active: SigningKeyState.ACTIVE,
  retired: SigningKeyState.RETIRED,
  revoked: SigningKeyState.REVOKED,
} as const;
const keyState = z.enum(["next", "active", "retired", "revoked", "unknown"]);

const keyAnswer = z
  .strictObject({
    id: textLike("kXq0Zr5q9iY").meta({ description: "`kid` of the tokens that it signs." }),
    algorithm: textLike("EdDSA"),
    state: keyState.meta({ description: "`unknown`: a state of a later version." }),
    createdAt: timeField,
    activatedAt: timeField.nullable(),
    retiredAt: timeField.nullable(),
  })
  .meta({ id: "SigningKey", description: "Of access and refresh tokens, without its private part." });

const serviceAnswer = z.strictObject({
  name: z.enum(["identity-service", "token-service", "audit-service"]),
  ready: z
    .boolean()
    .meta({ description: "Whether it answered this gateway a call that needs its database." }),
  latencyMs: intLike(4, "How long that took."),
});

interface SystemDeps extends Pick<Backends, "keys" | "users" | "sessions" | "auditQuery"> {
  noteReading: NoteReading;
  adminPolicy: AdminPolicy;
}

export function registerSystemRoutes(
  app: GatewayApp,
  { keys, users, sessions, auditQuery, noteReading, adminPolicy }: SystemDeps,
): void {
  const policy = adminPolicy("system:read");
  const route = routeIn(app, "Administration");

  route("listSigningKeys", "GET", "/admin/keys", {
    summary: "List the signing keys",
    policy,
    answers: answersWith("The keys, newest first.", z.strictObject({ keys: z.array(keyAnswer) })),
    codes: ["audit_unavailable"],
    handler: async (request) => {
      await noteReading(request, { action: "key.listed" });
      const found = await keys.listSigningKeys({}, request.state.call);
      const list = found.keys.map(({ keyId: id, algorithm, state, createdAt, activatedAt, retiredAt }) => {
        if (createdAt === undefined) throw new Error("token-service sent a key without a time");
        return {
          id,
          algorithm,
          state: keyState.options.find((name) => name !== "unknown" && STATES[name] === state) ?? "unknown",
          createdAt: createdAt.toISOString(),
          activatedAt: activatedAt?.toISOString() ?? null,
          retiredAt: retiredAt?.toISOString() ?? null,
        };
      });
      return success({ keys: list }, "The signing keys.");
    },
  });

  /** Reads something that is there or not: `not_found` is an answer. */
  const probes: Record<
    z.output<typeof serviceAnswer>["name"],
    (context: CallContext, userId: string) => Promise<unknown>
  > = {
    "identity-service": (context, userId) => users.getManagedUser({ userId }, context),
    "token-service": (context, userId) => sessions.listSessions({ userId }, context),
    "audit-service": (context) => auditQuery.getCheckpoint({ atLeastSize: 0 }, context),
  };

  route("getHealth", "GET", "/admin/health", {
    summary: "Ask each service whether it answers",
    description:
      "As this gateway sees them: one replica of each, at this moment. Always 200; what is not ready is in the answer.",
    policy,
    answers: answersWith("Each service.", z.strictObject({ services: z.array(serviceAnswer) })),
    handler: async (request) => {
      const { call } = request.state;
      const context = { ...call, deadlineMs: Math.min(call.deadlineMs, Date.now() + PROBE_BUDGET_MS) };
      const services = await Promise.all(
        serviceAnswer.shape.name.options.map(async (name) => {
          const startedMs = performance.now();
          const ready = await answers(probes[name](context, NOBODY));
          return { name, ready, latencyMs: Math.round(performance.now() - startedMs) };
        }),
      );
      return success({ services }, "The services, as this gateway sees them.");
    },
  });
}

/** No user has it (RFC 9562 §5.9). */
const NOBODY = "00000000-0000-0000-0000-000000000000";

async function answers(call: Promise<unknown>): Promise<boolean> {
  try {
    await call;
    return true;
  } catch (error) {
    return error instanceof DomainError && !UNAVAILABLE.has(error.code);
  }
}

const UNAVAILABLE: ReadonlySet<string> = new Set(["service_unavailable", "internal_error"]);
