import { z } from "zod";
import type { LinkPage } from "../edge/link-pages.ts";
import {
  type Answer,
  describeRoutes,
  enveloped,
  FORM_TYPE,
  HTML_TYPE,
  JSON_TYPE,
  type RouteDocs,
} from "../routing/route-docs.ts";
import { userAnswer } from "./answer-fields.ts";
import { newPasswordCodes } from "./auth-docs.ts";

const account = z.strictObject({ user: userAnswer });
const PAGE = z.string().meta({ examples: ["<!doctype html>"] });
const bodyTypes = [JSON_TYPE, FORM_TYPE];
const pageAnswers = { 200: { description: "A page whose button posts.", content: { [HTML_TYPE]: PAGE } } };

/** JSON for JSON, a page for a form. */
function used(description: string, data: z.ZodType = z.strictObject({})): Record<number, Answer> {
  return { 200: { description, content: { [JSON_TYPE]: enveloped(data), [HTML_TYPE]: PAGE } } };
}

const docs = describeRoutes("Accounts", {
  verifyEmailPage: { summary: "Page: prove an address", answers: pageAnswers },
  verifyEmail: {
    summary: "Verify an address by the mailed token",
    description:
      "With the account's access token or password, its credentials count as proven: a second factor and logins at " +
      "identity providers can be set up then. With the token alone only the address is verified.",
    answers: used("The address is verified.", account),
    codes: ["verification_token_invalid", "invalid_credentials", "busy"],
    bodyTypes,
    takesSession: true,
  },
  disownAccountPage: { summary: "Page: I did not make this account", answers: pageAnswers },
  disownAccount: {
    summary: "Say by the token of a verification mail that somebody else made the account",
    description:
      "Password, logins at identity providers, links and sessions of whoever made it are gone. A reset gives the account a " +
      "new password. Not for an account whose credentials were proven.",
    answers: used("Nothing opens the account any more."),
    codes: ["verification_token_invalid"],
    bodyTypes,
  },
  resetPasswordPage: { summary: "Page: a new password", answers: pageAnswers },
  resetPassword: {
    summary: "Set a new password by the mailed token",
    description:
      "Every session of the user ends. If the account's credentials were never proven together with its mailbox, " +
      "everything else that opens it goes, too: a mail says what.",
    answers: used("It was set."),
    codes: ["reset_token_invalid", ...newPasswordCodes, "password_unchanged", "busy"],
    bodyTypes,
  },
  confirmEmailChangePage: { summary: "Page: use another address", answers: pageAnswers },
  confirmEmailChange: {
    summary: "Confirm another address by the token mailed to it",
    description: "Needs the account's access token or its password.",
    answers: used("The address was changed.", account),
    codes: ["verification_token_invalid", "reauthentication_required", "invalid_credentials", "busy"],
    bodyTypes,
    takesSession: true,
  },
  undoEmailChangePage: { summary: "Page: take an address back", answers: pageAnswers },
  undoEmailChange: {
    summary: "Take a change of address back by the token mailed to the old one",
    description: "For seven days. Every session of the user ends, and the password is gone.",
    answers: used("The old address is back."),
    codes: ["verification_token_invalid"],
    bodyTypes,
  },
  undoAccessChangePage: { summary: "Page: take a new way to log in back", answers: pageAnswers },
  undoAccessChange: {
    summary: "Take a new second factor or login at a provider back by the token mailed when it was set up",
    description:
      "For seven days. Removes a second factor of the last 7 days and logins at providers of the last 30 days. Every session " +
      "of the user ends, the password is gone, and a link to set a new one is mailed.",
    answers: used("Nobody is in the account any more."),
    codes: ["verification_token_invalid"],
    bodyTypes,
  },
});

/** The page that a mailed link opens, and what its button does. */
export const linkDocs: Record<LinkPage, { get: RouteDocs; post: RouteDocs }> = {
  "verify-email": { get: docs.verifyEmailPage, post: docs.verifyEmail },
  "disown-account": { get: docs.disownAccountPage, post: docs.disownAccount },
  "reset-password": { get: docs.resetPasswordPage, post: docs.resetPassword },
  "confirm-email-change": { get: docs.confirmEmailChangePage, post: docs.confirmEmailChange },
  "undo-email-change": { get: docs.undoEmailChangePage, post: docs.undoEmailChange },
  "undo-access-change": { get: docs.undoAccessChangePage, post: docs.undoAccessChange },
};
