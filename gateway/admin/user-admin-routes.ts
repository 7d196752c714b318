import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { filterText, lookedFor } from "#audit-client/stream/record-reading.ts";
import {
  type ListUsersResponse,
  type ManagedUser,
  type OwnedClients,
  TotalIs,
  UserLink,
  UserSort,
  UserStatus,
} from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import type { TokenVerifier } from "#token-client/principal.ts";
import {
  idField,
  managedUserAnswer,
  nextCursorField,
  roleField,
  statusField,
  timeField,
  toUser,
} from "../auth/answer-fields.ts";
import { emailField, lastNameField, nameField } from "../auth/body-fields.ts";
import { sessionAnswer, toSession } from "../auth/session-routes.ts";
import type { Backends } from "../backends/backends.ts";
import { success } from "../edge/answers/envelope.ts";
import { HTTP_CREATED } from "../edge/answers/http-errors.ts";
import type { NoteReading } from "../edge/audit.ts";
import { principalOf } from "../edge/request/caller.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { intLike, optional, textField, textLike } from "../routing/fields.ts";
import { answer, answersWith } from "../routing/route-docs.ts";
import type { AdminPolicy } from "../routing/route-policy.ts";
import { ActBody, changeWithReason, pageQuery, reasonField as reason } from "./admin-fields.ts";
import { toUserDetails, userDetailsAnswer } from "./user-details-answer.ts";

const UserQuery = z.strictObject({
  query: optional(
    textField(1, 254, {
      description:
        "Up to ten words, each a part of the address or the name, in any order, without regard to case and accents. Of two characters, or one of a script such as Chinese: the beginning of a word.",
      examples: ["ada"],
    }),
  ),
  role: roleField.optional(),
  status: statusField.optional(),
  secondFactor: z.enum(["yes", "no"]).optional(),
  lastLogin: optional(
    z.union([z.literal("never"), z.iso.datetime()]).meta({
      description: "`never`, or a time: only users whose last login was before, the longest ago first.",
    }),
  ),
  sort: z
    .enum(["newest", "oldest", "last_login"])
    .optional()
    .meta({ description: "By default the newest first. `last_login`: never, then the longest ago." }),
  ...pageQuery,
});
/** As `UserQuery`, whose texts are in no address. */
const UserSearch = z.strictObject({
  ...UserQuery.shape,
  limit: z
    .int()
    .min(1)
    .max(100)
    .default(50)
    .meta({ examples: [50] }),
});
const UserParams = z.strictObject({ id: z.uuid().toLowerCase() });
const PasskeyParams = UserParams.extend({ passkeyId: z.uuid().toLowerCase() });
const clientsField = z.enum(["keep", "disable"]).meta({
  description:
    "What becomes of the user's clients: they live on without an owner, as by default, or are disabled too, which needs " +
    "`clients:write`. A change has it with status `disabled` only.",
  examples: ["disable"],
});
const leftClients = z
  .array(z.strictObject({ id: idField, name: textLike("Shop of ACME"), status: statusField }))
  .meta({
    description:
      "Of a user who is disabled or deleted: the clients that were active, newest first, at most 100, as they are now. Give " +
      "those that live on to another owner, and change the secrets that the user may know.",
  });
const UserChange = changeWithReason({
  role: roleField,
  status: statusField,
  mustChangePassword: z.boolean(),
  firstName: nameField,
  lastName: lastNameField,
  email: emailField,
  clients: clientsField,
});
/** The body may be absent. */
const UserEnd = z.strictObject({ reason: optional(reason), clients: clientsField.optional() }).default({});

/** The body may be absent. */
const SessionsEnd = z
  .strictObject({
    sessionId: z.uuid().toLowerCase().optional().meta({ description: "Of the only one to end." }),
    reason: optional(reason),
  })
  .default({});

const UserMail = z.strictObject({
  link: z.enum(["confirmation", "reset"]).meta({
    description:
      "`confirmation`: of the address; of an account that was invited and waits, the invitation again. `reset`: to a new password.",
  }),
  reason: optional(reason),
});
const NewUser = z.strictObject({
  email: emailField,
  firstName: nameField,
  lastName: lastNameField,
  role: roleField.optional(),
  reason: optional(reason),
});

const figureAnswer = z.strictObject({
  name: z.enum([
    "users",
    "newInWeek",
    "active",
    "withSecondFactor",
    "withPasskey",
    "mailsWaiting",
    "mailsFailed",
  ]),
  count: intLike(50_000),
  isEstimate: z.boolean().meta({ description: "Too many to count." }),
});
const described = z.strictObject({
  user: managedUserAnswer,
  details: userDetailsAnswer,
});
const userPage = answersWith(
  "A page of users.",
  z.strictObject({
    users: z.array(managedUserAnswer),
    nextCursor: nextCursorField,
    total: intLike(50_000, "With the first page: how many fit. Absent if counting took too long.").optional(),
    totalIs: z
      .enum(["exact", "about", "over"])
      .optional()
      .meta({ description: "`about`: an estimate. `over`: there are more." }),
  }),
);

interface UserAdminDeps extends Pick<Backends, "users" | "sessions"> {
  noteReading: NoteReading;
  verifier: Pick<TokenVerifier, "refuseSession">;
  adminPolicy: AdminPolicy;
}

/** The verifier refuses ended sessions before the revocation stream does. */
export function registerUserAdminRoutes(
  app: GatewayApp,
  { users, sessions, noteReading, verifier, adminPolicy }: UserAdminDeps,
): void {
  const route = routeIn(app, "Administration");
  const refuse = ({ endedSessionIds }: { endedSessionIds: readonly string[] }) => {
    for (const id of endedSessionIds) verifier.refuseSession(id);
  };

  const list = async (request: FastifyRequest, query: z.output<typeof UserQuery>) => {
    await noteReading(request, readingOf(query));
    const page = await users.listUsers(searchOf(query), request.state.call);
    const found = { users: page.users.map(toManagedUser), nextCursor: page.nextCursor || null };
    return success({ ...found, ...toTotal(page) }, "Users.");
  };

  route("listUsers", "GET", "/admin/users", {
    summary: "List users",
    policy: adminPolicy("users:read"),
    schema: { querystring: UserQuery },
    answers: userPage,
    codes: ["audit_unavailable"],
    handler: (request) => list(request, request.query),
  });

  route("inviteUser", "POST", "/admin/users", {
    summary: "Invite a user",
    description:
      "Makes an account without a password, and mails a link to set one within 7 days, which proves the address. Needs " +
      "`users:read` too, and `roles:assign` for a role other than that of new accounts.",
    policy: { ...adminPolicy("users:help"), action: "admin.users.invite" },
    schema: { body: NewUser },
    answers: { [HTTP_CREATED]: answer("The user.", z.strictObject({ user: managedUserAnswer })) },
    codes: ["email_already_registered", "conflict"],
    handler: async (request, reply) => {
      const { role = "", reason: why = "", ...person } = request.body;
      const { user } = await users.inviteUser({ ...person, role, reason: why }, request.state.call);
      reply.code(HTTP_CREATED);
      return success({ user: toManagedUser(user) }, "The user was invited.");
    },
  });

  route("searchUsers", "POST", "/admin/user-search", {
    summary: "Search users, by a body",
    description: "As `GET /admin/users`, for an address or a name, which must not be in a URL.",
    // Nothing changes: it leaves the one entry of a reading, as the list does (docs/decisions/audit-log.md).
    policy: { ...adminPolicy("users:read"), isAudited: false },
    schema: { body: UserSearch },
    answers: userPage,
    codes: ["audit_unavailable"],
    handler: (request) => list(request, request.body),
  });

  route("getUserFigures", "GET", "/admin/users/figures", {
    summary: "Count users and mails",
    description: "At most once a minute. Active: in 30 days. Failed: in 7 days.",
    policy: adminPolicy("users:read"),
    answers: answersWith(
      "The figures.",
      z.strictObject({ countedAt: timeField, figures: z.array(figureAnswer) }),
    ),
    handler: async (request) => {
      const found = await users.getUserFigures({}, request.state.call);
      if (found.countedAt === undefined) throw new Error("identity-service sent figures without their time");
      const figures = figureAnswer.shape.name.options.map((name) => {
        const { count = 0, isEstimate = false } = found[name] ?? {};
        return { name, count, isEstimate };
      });
      return success({ countedAt: found.countedAt.toISOString(), figures }, "Users and mails.");
    },
  });

  route("getUser", "GET", "/admin/users/:id", {
    summary: "Show a user",
    policy: adminPolicy("users:read"),
    schema: { params: UserParams },
    answers: answersWith("The user.", described),
    codes: ["not_found", "audit_unavailable"],
    handler: async (request) => {
      await noteReading(request, { action: "user.read" });
      const found = await users.getManagedUser({ userId: request.params.id }, request.state.call);
      if (found.details === undefined) throw new Error("identity-service sent a user without details");
      return success({ user: toManagedUser(found.user), details: toUserDetails(found.details) }, "The user.");
    },
  });

  route("updateUser", "PATCH", "/admin/users/:id", {
    summary: "Change a user",
    description:
      "What is absent stays. A new role, a disabled account and a password that must be changed end the user's " +
      "sessions. A new address, which needs `users:read` too, counts once the link that is mailed to it is used; the " +
      "present one takes the link back.",
    policy: { ...adminPolicy("users:write"), action: "admin.users.update" },
    schema: { params: UserParams, body: UserChange },
    answers: answersWith(
      "The user as it is now.",
      z.strictObject({ user: managedUserAnswer, clients: leftClients }),
    ),
    codes: ["not_found", "last_admin", "email_already_registered", "conflict"],
    handler: async (request) => {
      const changed = await users.setUserAccess(changeOf(request), request.state.call);
      refuse(changed);
      const user = toManagedUser(changed.user);
      return success({ user, clients: toLeftClients(changed.clients) }, "The user was changed.");
    },
  });

  route("deleteUser", "DELETE", "/admin/users/:id", {
    summary: "Delete a user",
    policy: { ...adminPolicy("users:delete"), action: "admin.users.delete" },
    schema: { params: UserParams, body: UserEnd },
    answers: answersWith("The account is gone.", z.strictObject({ clients: leftClients })),
    codes: ["not_found", "last_admin", "conflict"],
    handler: async (request) => {
      const gone = await users.deleteUser(endOf(request), request.state.call);
      refuse(gone);
      return success({ clients: toLeftClients(gone.clients) }, "The account is gone.");
    },
  });

  route("unlockUser", "POST", "/admin/users/:id/unlock", {
    summary: "Forget a user's failed logins",
    description: "They slow further logins down. A disabled user stays so.",
    policy: { ...adminPolicy("users:unlock"), action: "admin.users.unlock" },
    schema: { params: UserParams, body: ActBody },
    answers: answersWith("They are forgotten."),
    codes: ["not_found"],
    handler: async (request) => {
      await users.unlockUser(actOf(request), request.state.call);
      return success({}, "The user's failed logins are forgotten.");
    },
  });

  route("mailUser", "POST", "/admin/users/:id/mail", {
    summary: "Mail a user a link",
    description: "To the account's address alone. `conflict` at the limit of mails, too.",
    policy: { ...adminPolicy("users:help"), action: "admin.users.mail" },
    schema: { params: UserParams, body: UserMail },
    answers: answersWith("It waits to be sent."),
    codes: ["not_found", "conflict"],
    handler: async (request) => {
      await users.mailUser({ ...actOf(request), link: LINKS[request.body.link] }, request.state.call);
      return success({}, "The mail waits to be sent.");
    },
  });

  route("listUserSessions", "GET", "/admin/users/:id/sessions", {
    summary: "List a user's sessions",
    policy: adminPolicy("sessions:read"),
    schema: { params: UserParams },
    answers: answersWith(
      "The live sessions, newest first.",
      z.strictObject({ sessions: z.array(sessionAnswer) }),
    ),
    codes: ["audit_unavailable"],
    handler: async (request) => {
      await noteReading(request, { action: "session.listed" });
      const found = await sessions.listSessions({ userId: request.params.id }, request.state.call);
      const { sessionId } = principalOf(request);
      return success(
        { sessions: found.sessions.map((each) => toSession(each, sessionId)) },
        "The user's sessions.",
      );
    },
  });

  route("endUserSessions", "POST", "/admin/users/:id/sessions/revoke", {
    summary: "End a user's sessions, or one",
    policy: { ...adminPolicy("sessions:end"), action: "admin.users.revoke_sessions" },
    schema: { params: UserParams, body: SessionsEnd },
    answers: answersWith("They have ended.", z.strictObject({ ended: intLike(2, "How many.") })),
    codes: ["not_found"],
    handler: async (request) => {
      const ended = await users.endUserSessions(
        { ...actOf(request), sessionId: request.body.sessionId ?? "" },
        request.state.call,
      );
      refuse(ended);
      return success({ ended: ended.endedSessionIds.length }, "The user's sessions have ended.");
    },
  });

  route("resetUserMfa", "POST", "/admin/users/:id/mfa/reset", {
    summary: "Take a user's second factor away",
    description: "The user's sessions end.",
    policy: { ...adminPolicy("mfa:reset"), action: "admin.users.reset_mfa" },
    schema: { params: UserParams, body: ActBody },
    answers: answersWith("The user no longer has one."),
    codes: ["not_found"],
    handler: async (request) => {
      refuse(await users.resetUserMfa(actOf(request), request.state.call));
      return success({}, "The user no longer has a second factor.");
    },
  });

  route("removeUserPasskey", "DELETE", "/admin/users/:id/passkeys/:passkeyId", {
    summary: "Remove a user's passkey",
    description: "The user's sessions end.",
    policy: { ...adminPolicy("mfa:reset"), action: "admin.users.remove_passkey" },
    schema: { params: PasskeyParams, body: ActBody },
    answers: answersWith("It is removed."),
    codes: ["not_found"],
    handler: async (request) => {
      const { passkeyId } = request.params;
      refuse(await users.removeUserPasskey({ ...actOf(request), passkeyId }, request.state.call));
      return success({}, "The passkey is removed.");
    },
  });
}

function readingOf({ query = "", cursor: _position, ...filter }: z.output<typeof UserQuery>) {
  const { address, ...typed } = lookedFor(query);
  return {
    action: "user.listed" as const,
    filter: filterText({ ...filter, ...typed }),
    ...(address !== undefined && { address }),
  };
}

function searchOf({
  query = "",
  secondFactor,
  lastLogin,
  sort = "newest",
  cursor = "",
  limit,
  ...access
}: z.output<typeof UserQuery>) {
  const hasSecondFactor = secondFactor === undefined ? undefined : secondFactor === "yes";
  const neverLoggedIn = lastLogin === "never";
  const lastLoginBefore = neverLoggedIn || lastLogin === undefined ? undefined : new Date(lastLogin);
  const order = { sort: SORTS[sort], cursor, limit };
  return { query, ids: [], hasSecondFactor, neverLoggedIn, lastLoginBefore, ...order, ...accessOf(access) };
}

function toTotal({ total, totalIs }: Pick<ListUsersResponse, "total" | "totalIs">) {
  const is = (["exact", "about", "over"] as const).find((name) => TOTALS[name] === totalIs);
  return is && { total, totalIs: is };
}

interface ActOn<Body> {
  params: { id: string };
  body: Body;
}

function actOf({ params, body }: ActOn<z.output<typeof ActBody>>) {
  return { userId: params.id, reason: body.reason ?? "" };
}

function endOf(request: ActOn<z.output<typeof UserEnd>>) {
  return { ...actOf(request), disableClients: request.body.clients === "disable" };
}

function changeOf(request: ActOn<z.output<typeof UserChange>>) {
  const { mustChangePassword, firstName, lastName, email } = request.body;
  return { ...endOf(request), ...accessOf(request.body), mustChangePassword, firstName, lastName, email };
}

const LINKS = { confirmation: UserLink.CONFIRMATION, reset: UserLink.RESET } as const;
const SORTS = {
  newest: UserSort.NEWEST,
  oldest: UserSort.OLDEST,
  last_login: UserSort.LAST_LOGIN,
} as const;
const TOTALS = { exact: TotalIs.EXACT, about: TotalIs.ABOUT, over: TotalIs.OVER } as const;
const STATUSES = { active: UserStatus.ACTIVE, disabled: UserStatus.DISABLED } as const;

function accessOf({ role, status }: Pick<z.output<typeof UserChange>, "role" | "status">) {
  return {
    role: role ?? "",
    status: status === undefined ? UserStatus.UNSPECIFIED : STATUSES[status],
  };
}

function toLeftClients(message: OwnedClients | undefined): z.output<typeof leftClients> {
  return (message?.clients ?? []).map(({ id, name, active }) => ({
    id,
    name,
    status: active ? "active" : "disabled",
  }));
}

function toManagedUser(message: ManagedUser | undefined): z.output<typeof managedUserAnswer> {
  const status = statusField.options.find((name) => STATUSES[name] === message?.status);
  if (message === undefined || status === undefined) {
    throw new Error("identity-service sent a user or a status that is not known");
  }
  const lastLoginAt = message.lastLoginAt?.toISOString() ?? null;
  return {
    ...toUser(message.user),
    status,
    mustChangePassword: message.mustChangePassword === true,
    lastLoginAt,
  };
}
