import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { DomainError, type ErrorCode } from "#kit/values/errors.ts";
import { presentedToken, verifiedPrincipal } from "#token-client/bearer-token.ts";
import { success } from "../edge/answers/envelope.ts";
import { HTTP_SEE_OTHER } from "../edge/answers/http-errors.ts";
import {
  donePage,
  failurePage,
  LINK_PAGES,
  type LinkPage,
  linkPage,
  PAGE_HEADERS,
  type PageBrand,
} from "../edge/answers/link-pages.ts";
import { acceptsHtml, clientIp, clientOf } from "../edge/request/caller.ts";
import { addFormParser, isForm } from "../edge/request/request-body.ts";
import type { FailurePage, GatewayApp } from "../edge/request/request-state.ts";
import { type Route, routeIn } from "../edge/request/route.ts";
import { optional, textField, textLike } from "../routing/fields.ts";
import { answer, answersWith, FORM_TYPE, HTML_TYPE, JSON_TYPE } from "../routing/route-docs.ts";
import { accountAnswer, toUser } from "./answer-fields.ts";
import { linkTokenField, newPasswordCodes, newPasswordField } from "./body-fields.ts";
import type { AuthDeps } from "./login-answer.ts";

const TokenBody = z.strictObject({ token: linkTokenField }).meta({ id: "LinkToken" });
/** Forms send an empty field for an omitted password. */
const ProofBody = z
  .strictObject({
    token: linkTokenField,
    password: optional(
      textField(0, 1_024, {
        description: "Of the account, unless its access token comes along.",
        format: "password",
        examples: ["Correct-Horse-42"],
      }),
    ),
  })
  .meta({ id: "LinkProof" });
const ResetBody = z
  .strictObject({
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
  })
  .meta({ id: "PasswordReset" });
const CheckBody = z
  .strictObject({
    link: z
      .enum([
        "verify-email",
        "reset-password",
        "confirm-email-change",
        "undo-email-change",
        "undo-access-change",
      ])
      .meta({ description: "The last part of its address." }),
    token: linkTokenField,
  })
  .meta({ id: "LinkCheck" });
const REFUSED_TOKENS: ReadonlySet<ErrorCode> = new Set(["token_missing", "token_invalid", "token_expired"]);
/** Mail programs add parameters to links. */
const LinkQuery = z.object({ token: linkTokenField });

const PAGE = textLike("<!doctype html>");
const pageAnswers = {
  200: { description: "A page whose button posts.", content: { [HTML_TYPE]: PAGE } },
  303: {
    description: "For browsers, where the account portal is served.",
    headers: { Location: "The portal's page, with the token in the fragment." },
  },
};

export interface LinkPagesDeps {
  /** Where the account portal is, if it is served. */
  portalPath: string | undefined;
  brand: PageBrand;
}

interface Used {
  userId: string;
  data: object;
  message: string;
}

interface Link<B extends z.ZodType>
  extends Pick<Route<object>, "summary" | "description" | "codes" | "takesSession"> {
  pageSummary: string;
  body: B;
  answer: Parameters<typeof answer>;
  use(body: z.output<B>, request: FastifyRequest): Promise<Used>;
}

/**
 * The links of mails. `GET` changes nothing, because mail scanners open links; the page's button posts. `POST`
 * accepts JSON, or a form, whose answer is a page.
 */
export function registerLinkRoutes(app: GatewayApp, deps: AuthDeps & LinkPagesDeps): void {
  const { identity, verifier } = deps;
  const proven = async ({ token, password = "" }: z.output<typeof ProofBody>, request: FastifyRequest) => ({
    token,
    password,
    clientIp: clientIp(request),
    sessionUserId: await verifySessionUser(request, deps),
  });
  const refuse = (ended: { userId: string; endedSessionIds: readonly string[] }, message: string): Used => {
    for (const id of ended.endedSessionIds) verifier.refuseSession(id);
    return { userId: ended.userId, data: {}, message };
  };

  app.register(async (scope: GatewayApp) => {
    addFormParser(scope);

    const addLink = createAddLink(scope, deps);
    addCheck(scope, deps);

    addLink("verifyEmail", "verify-email", {
      pageSummary: "Page: prove an address",
      summary: "Verify an address by the mailed token",
      description:
        "With the account's access token or password, its credentials count as proven: a second factor and logins at " +
        "identity providers can be set up then. With the token alone only the address is verified.",
      body: ProofBody,
      answer: ["The address is verified.", accountAnswer],
      codes: ["verification_token_invalid", "invalid_credentials", "busy"],
      takesSession: true,
      use: async (body, request) => {
        const user = toUser(
          (await identity.verifyEmail(await proven(body, request), request.state.call)).user,
        );
        return { userId: user.id, data: { user }, message: "The address is confirmed." };
      },
    });

    addLink("disownAccount", "disown-account", {
      pageSummary: "Page: I did not make this account",
      summary: "Say by the token of a verification mail that somebody else made the account",
      description:
        "Password, logins at identity providers, links and sessions of whoever made it are gone. A reset gives the account a " +
        "new password. Not for an account whose credentials were proven.",
      body: TokenBody,
      answer: ["No login opens the account now."],
      codes: ["verification_token_invalid"],
      use: async ({ token }, request) => {
        const ended = await identity.disownAccount({ token, ...clientOf(request) }, request.state.call);
        return refuse(ended, "No login opens the account now.");
      },
    });

    addLink("resetPassword", "reset-password", {
      pageSummary: "Page: a new password",
      summary: "Set a new password by the mailed token",
      description:
        "Every session of the user ends. If the account's credentials were never proven together with its mailbox, " +
        "everything else that opens it goes, too: a mail says what.",
      body: ResetBody,
      answer: ["It was set."],
      codes: ["reset_token_invalid", ...newPasswordCodes, "password_unchanged", "busy"],
      use: async ({ token, newPassword, keepRecentLogins = false }, request) => {
        const reset = { token, newPassword, keepRecentLogins, clientIp: clientIp(request) };
        const ended = await identity.resetPassword(reset, request.state.call);
        return refuse(ended, "The password was set; every session has ended.");
      },
    });

    addLink("confirmEmailChange", "confirm-email-change", {
      pageSummary: "Page: use another address",
      summary: "Confirm another address by the token mailed to it",
      description:
        "Needs the account's access token or its password, unless `isVouched`: then every session ends.",
      body: ProofBody,
      answer: ["The address was changed.", accountAnswer],
      codes: ["verification_token_invalid", "reauthentication_required", "invalid_credentials", "busy"],
      takesSession: true,
      use: async (body, request) => {
        const { user, endedSessionIds } = await identity.confirmEmailChange(
          await proven(body, request),
          request.state.call,
        );
        const changed = toUser(user);
        const message = "The address was changed.";
        return { ...refuse({ userId: changed.id, endedSessionIds }, message), data: { user: changed } };
      },
    });

    addLink("undoEmailChange", "undo-email-change", {
      pageSummary: "Page: take an address back",
      summary: "Take a change of address back by the token mailed to the old one",
      description: "For seven days. Every session of the user ends, and the password is gone.",
      body: TokenBody,
      answer: ["The old address is back."],
      codes: ["verification_token_invalid"],
      use: async ({ token }, request) => {
        const ended = await identity.undoEmailChange({ token }, request.state.call);
        return refuse(ended, "The old address is back; every session has ended.");
      },
    });

    addLink("undoAccessChange", "undo-access-change", {
      pageSummary: "Page: take a new way to log in back",
      summary: "Take a new second factor or login at a provider back by the token mailed when it was set up",
      description:
        "For seven days. Removes a second factor of the last 7 days and logins at providers of the last 30 days. Every session " +
        "of the user ends, the password is gone, and a link to set a new one is mailed.",
      body: TokenBody,
      answer: ["All sessions of the account have ended."],
      codes: ["verification_token_invalid"],
      use: async ({ token }, request) => {
        const ended = await identity.undoAccessChange({ token }, request.state.call);
        return refuse(ended, "Every session has ended, and the password is gone.");
      },
    });
  });
}

/** For pages. Whoever has a token of 256 bits may use it, so the answer is news for nobody else. */
function addCheck(app: GatewayApp, { identity }: Pick<AuthDeps, "identity">): void {
  routeIn(app, "Accounts")("checkLink", "POST", "/auth/links", {
    summary: "Whether a mailed link can still be used",
    description: "Uses nothing up.",
    // Each view of a link's page asks. Only its use is in the audit log (docs/decisions/registration-and-mail.md).
    policy: { auth: "public", limitClass: "link", isAudited: false },
    schema: { body: CheckBody },
    answers: answersWith(
      "It can. `email`: the address that it confirms. `isVouched`: without the account's password.",
      z.strictObject({ email: optional(textLike("ada@example.com")), isVouched: z.boolean() }),
    ),
    codes: ["verification_token_invalid", "reset_token_invalid"],
    handler: async (request) => {
      const { link, token } = request.body;
      const { email, isVouched } = await identity.checkLink(
        { token, purpose: link.replaceAll("-", "_") },
        request.state.call,
      );
      return success({ ...(email !== "" && { email }), isVouched }, "The link can be used.");
    },
  });
}

function createAddLink(app: GatewayApp, { portalPath, brand }: LinkPagesDeps) {
  const route = routeIn(app, "Accounts");
  return <B extends z.ZodType>(
    operationId: string,
    page: LinkPage,
    { pageSummary, body, answer: said, use, ...docs }: Link<B>,
  ): void => {
    const url = `/auth/${page}`;
    const onFailure: FailurePage = (...failed) => failurePage({ page, brand }, ...failed);
    const { description, content } = answer(...said);

    route(`${operationId}Page`, "GET", url, {
      summary: pageSummary,
      policy: { auth: "public", limitClass: "link" },
      schema: { querystring: LinkQuery },
      answers: pageAnswers,
      failurePage: onFailure,
      handler: async (request, reply) => {
        const { token } = request.query;
        if (portalPath === undefined || !acceptsHtml(request))
          return reply.headers(PAGE_HEADERS).send(linkPage({ page, brand }, token));
        // A fragment stays in the browser.
        return reply
          .code(HTTP_SEE_OTHER)
          .header("location", `${portalPath}/${page}#token=${encodeURIComponent(token)}`)
          .send();
      },
    });

    route(operationId, "POST", url, {
      ...docs,
      policy: { auth: "public", limitClass: "link", action: LINK_PAGES[page].action },
      schema: { body },
      bodyTypes: [JSON_TYPE, FORM_TYPE],
      answers: { 200: { description, content: { ...content, [HTML_TYPE]: PAGE } } },
      failurePage: onFailure,
      identify: async (request, reply) => {
        const { userId, data, message } = await use(request.body as z.output<B>, request);
        const actor = { userId };
        if (!isForm(request)) return { body: success(data, message), actor };
        reply.headers(PAGE_HEADERS);
        return { body: donePage({ page, brand }), actor };
      },
    });
  };
}

/**
 * @returns an empty text without a session. @throws {DomainError} `invalid_credentials` for an ended session or
 * another text; `service_unavailable`.
 */
async function verifySessionUser(
  request: FastifyRequest,
  { verifier, proofsOfKeys }: Pick<AuthDeps, "verifier" | "proofsOfKeys">,
): Promise<string> {
  const { authorization } = request.headers;
  if (authorization === undefined) return "";
  try {
    const presented = presentedToken(authorization);
    const principal = verifiedPrincipal(await verifier.verify(presented.text, clientIp(request)));
    const proof = proofsOfKeys.ofCall(request, presented, principal);
    if (proof !== undefined) await proofsOfKeys.useOfCall(request, proof, principal);
    if (principal.kind === "client") throw new DomainError("invalid_credentials");
    return principal.userId;
  } catch (error) {
    const isRefused = error instanceof DomainError && REFUSED_TOKENS.has(error.code);
    throw isRefused ? new DomainError("invalid_credentials", undefined, { cause: error }) : error;
  }
}
