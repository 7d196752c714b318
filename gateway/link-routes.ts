import type { FastifyReply } from "fastify";
import { z } from "zod";
import type { CallContext } from "../service-kit/call-context.ts";
import type { AccountClient, EndedSessions } from "./account-client.ts";
import { linkTokenField, passwordField } from "./body-fields.ts";
import { clientIp } from "./client-ip.ts";
import { success } from "./envelope.ts";
import { addFormParser, isForm } from "./form-parser.ts";
import { linkDocs } from "./link-docs.ts";
import { donePage, failurePage, LINK_PAGES, type LinkPage, linkPage, PAGE_HEADERS } from "./link-pages.ts";
import type { FailurePage, GatewayApp } from "./request-state.ts";

const TokenBody = z.strictObject({ token: linkTokenField });
const ResetBody = z.strictObject({ token: linkTokenField, newPassword: passwordField });
/** Not strict: mail programs add parameters of their own to links. */
const LinkQuery = z.object({ token: linkTokenField });

/** A link that is used, and from where. */
type UsedLink = z.output<typeof ResetBody> & { clientIp: string };

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
  refuse: (ended: EndedSessions) => void,
): void {
  const use: Record<LinkPage, (body: UsedLink, context: CallContext) => Promise<Used>> = {
    "verify-email": async ({ token }, context) => {
      const user = await accounts.verifyEmail(token, context);
      return { userId: user.id, data: { user }, message: "The address is confirmed." };
    },
    "reset-password": async (reset, context) => {
      const ended = await accounts.resetPassword(reset, context);
      refuse(ended);
      return { userId: ended.userId, data: {}, message: "The password was set; every session has ended." };
    },
    "confirm-email-change": async ({ token }, context) => {
      const user = await accounts.confirmEmailChange(token, context);
      return { userId: user.id, data: { user }, message: "The address was changed." };
    },
    "undo-email-change": async ({ token }, context) => {
      const ended = await accounts.undoEmailChange(token, context);
      refuse(ended);
      return { userId: ended.userId, data: {}, message: "The old address is back; every session has ended." };
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
          schema: { body: page === "reset-password" ? ResetBody : TokenBody },
        },
        async (request, reply) => {
          // Only the page that has a password to ask for reads one.
          const body = request.body as z.output<typeof ResetBody>;
          const used = { ...body, clientIp: clientIp(request) };
          const { userId, data, message } = await use[page](used, request.call);
          request.provenActor = { userId };
          return isForm(request) ? sendPage(reply, donePage(page)) : success(data, message);
        },
      );
    }
  });
}

function sendPage(reply: FastifyReply, html: string): FastifyReply {
  return reply.headers(PAGE_HEADERS).send(html);
}
