import type { FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import type { CallContext } from "../../service-kit/call-context.ts";
import { DomainError, type ErrorCode } from "../../service-kit/errors.ts";
import { bearerToken, principalOf } from "../../token-client/bearer-token.ts";
import type { TokenVerifier } from "../../token-client/principal.ts";
import { clientOf } from "../edge/client-of.ts";
import { success } from "../edge/envelope.ts";
import { addFormParser, isForm } from "../edge/form-parser.ts";
import {
  donePage,
  failurePage,
  LINK_PAGES,
  type LinkPage,
  linkPage,
  PAGE_HEADERS,
} from "../edge/link-pages.ts";
import type { FailurePage, GatewayApp } from "../edge/request-state.ts";
import type { AccountClient, EndedSessions } from "./account-client.ts";
import { linkTokenField, newPasswordField } from "./body-fields.ts";
import { linkDocs } from "./link-docs.ts";

const TokenBody = z.strictObject({ token: linkTokenField });
/** A form sends an empty field for a password that was not typed. */
const ProofBody = z.strictObject({
  token: linkTokenField,
  password: z
    .string()
    .max(1_024)
    .optional()
    .meta({
      description: "Of the account, unless its access token comes along.",
      format: "password",
      examples: ["Correct-Horse-42"],
    }),
});
const ResetBody = z.strictObject({
  token: linkTokenField,
  newPassword: newPasswordField,
  keepRecentLogins: z
    .boolean()
    .optional()
    .meta({
      description:
        "Whether logins at providers that were linked in the last 30 days stay. By default the reset removes them: whoever " +
        "stole the old password may have linked them.",
    }),
});
const REFUSED_TOKENS: ReadonlySet<ErrorCode> = new Set(["token_missing", "token_invalid", "token_expired"]);
/** Not strict: mail programs add parameters of their own to links. */
const LinkQuery = z.object({ token: linkTokenField });

const BODIES: Record<LinkPage, z.ZodType<UsedFields>> = {
  "verify-email": ProofBody,
  "disown-account": TokenBody,
  "reset-password": ResetBody,
  "confirm-email-change": ProofBody,
  "undo-email-change": TokenBody,
  "undo-access-change": TokenBody,
};

/** What the bodies have, each for its page. */
interface UsedFields {
  token: string;
  password?: string | undefined;
  newPassword?: string | undefined;
  keepRecentLogins?: boolean | undefined;
}

/** A link that is used, and from where. */
interface UsedLink {
  token: string;
  password: string;
  newPassword: string;
  keepRecentLogins: boolean;
  clientIp: string;
  userAgent: string;
  request: FastifyRequest;
}

/** What using a link came to. */
interface Used {
  userId: string;
  /** Of the answer in JSON. */
  data: object;
  message: string;
}

/**
 * The links of mails: `GET` shows a page and changes nothing, because mail scanners open links; the page's button
 * posts. `POST` takes JSON and answers in JSON, or a form, for which the answer is a page.
 */
export function registerLinkRoutes(
  app: GatewayApp,
  accounts: AccountClient,
  verifier: Pick<TokenVerifier, "verify" | "refuseSession">,
): void {
  const refuse = ({ endedSessionIds }: EndedSessions) => {
    for (const id of endedSessionIds) verifier.refuseSession(id);
  };
  const proven = async ({ token, password, clientIp, request }: UsedLink) => {
    return { token, password, clientIp, sessionUserId: await sessionUserOf(request, verifier) };
  };
  const use: Record<LinkPage, (link: UsedLink, context: CallContext) => Promise<Used>> = {
    "verify-email": async (link, context) => {
      const user = await accounts.verifyEmail(await proven(link), context);
      return { userId: user.id, data: { user }, message: "The address is confirmed." };
    },
    "disown-account": async ({ token, clientIp, userAgent }, context) => {
      const ended = await accounts.disownAccount({ token, clientIp, userAgent }, context);
      refuse(ended);
      return { userId: ended.userId, data: {}, message: "Nothing opens the account any more." };
    },
    "reset-password": async ({ token, newPassword, clientIp, keepRecentLogins }, context) => {
      const ended = await accounts.resetPassword({ token, newPassword, clientIp, keepRecentLogins }, context);
      refuse(ended);
      return { userId: ended.userId, data: {}, message: "The password was set; every session has ended." };
    },
    "confirm-email-change": async (link, context) => {
      const user = await accounts.confirmEmailChange(await proven(link), context);
      return { userId: user.id, data: { user }, message: "The address was changed." };
    },
    "undo-email-change": async ({ token }, context) => {
      const ended = await accounts.undoEmailChange(token, context);
      refuse(ended);
      return { userId: ended.userId, data: {}, message: "The old address is back; every session has ended." };
    },
    "undo-access-change": async ({ token }, context) => {
      const ended = await accounts.undoAccessChange(token, context);
      refuse(ended);
      return {
        userId: ended.userId,
        data: {},
        message: "Every session has ended, and the password is gone.",
      };
    },
  };

  app.register(async (scope: GatewayApp) => {
    addFormParser(scope);
    for (const page of Object.keys(LINK_PAGES) as LinkPage[]) {
      const url = `/auth/${page}`;
      const onFailure: FailurePage = (...failed) => failurePage(page, ...failed);
      scope.get(
        url,
        {
          config: { auth: "public", failurePage: onFailure, docs: linkDocs[page].get },
          schema: { querystring: LinkQuery },
        },
        async (request, reply) => sendPage(reply, linkPage(page, request.query.token)),
      );
      scope.post(
        url,
        {
          config: {
            auth: "public",
            action: LINK_PAGES[page].action,
            failurePage: onFailure,
            docs: linkDocs[page].post,
          },
          schema: { body: BODIES[page] },
        },
        async (request, reply) => {
          const { token, password = "", newPassword = "", keepRecentLogins = false } = request.body;
          const link = { token, password, newPassword, keepRecentLogins, ...clientOf(request), request };
          const { userId, data, message } = await use[page](link, request.call);
          request.provenActor = { userId };
          return isForm(request) ? sendPage(reply, donePage(page)) : success(data, message);
        },
      );
    }
  });
}

/**
 * The user of the session that comes along; empty: none does.
 *
 * @throws {DomainError} `invalid_credentials` for a session that is over and for what is no access token;
 *   `service_unavailable`.
 */
async function sessionUserOf(
  { headers: { authorization } }: FastifyRequest,
  verifier: Pick<TokenVerifier, "verify">,
): Promise<string> {
  if (authorization === undefined) return "";
  try {
    return (await principalOf(verifier, bearerToken(authorization))).userId;
  } catch (error) {
    const isRefused = error instanceof DomainError && REFUSED_TOKENS.has(error.code);
    throw isRefused ? new DomainError("invalid_credentials", undefined, { cause: error }) : error;
  }
}

function sendPage(reply: FastifyReply, html: string): FastifyReply {
  return reply.headers(PAGE_HEADERS).send(html);
}
