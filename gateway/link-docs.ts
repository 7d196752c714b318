import { z } from "zod";
import { userAnswer } from "./answer-fields.ts";
import { newPasswordCodes } from "./auth-docs.ts";
import type { LinkPage } from "./link-pages.ts";
import {
  type Answer,
  describeRoutes,
  enveloped,
  FORM_TYPE,
  HTML_TYPE,
  JSON_TYPE,
  type RouteDocs,
} from "./route-docs.ts";

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
    summary: "Prove an address by the mailed token",
    answers: used("The address is proven.", account),
    codes: ["verification_token_invalid"],
    bodyTypes,
  },
  resetPasswordPage: { summary: "Page: a new password", answers: pageAnswers },
  resetPassword: {
    summary: "Set a new password by the mailed token",
    description: "Every session of the user ends.",
    answers: used("It was set."),
    codes: ["reset_token_invalid", ...newPasswordCodes, "password_unchanged", "busy"],
    bodyTypes,
  },
  confirmEmailChangePage: { summary: "Page: use another address", answers: pageAnswers },
  confirmEmailChange: {
    summary: "Confirm another address by the token mailed to it",
    answers: used("The address was changed.", account),
    codes: ["verification_token_invalid"],
    bodyTypes,
  },
  undoEmailChangePage: { summary: "Page: take an address back", answers: pageAnswers },
  undoEmailChange: {
    summary: "Take a change of address back by the token mailed to the old one",
    description: "For seven days. Every session of the user ends, and the password is gone.",
    answers: used("The old address is back."),
    codes: ["verification_token_invalid"],
    bodyTypes,
  },
});

/** The page that a mailed link opens, and what its button does. */
export const linkDocs: Record<LinkPage, { get: RouteDocs; post: RouteDocs }> = {
  "verify-email": { get: docs.verifyEmailPage, post: docs.verifyEmail },
  "reset-password": { get: docs.resetPasswordPage, post: docs.resetPassword },
  "confirm-email-change": { get: docs.confirmEmailChangePage, post: docs.confirmEmailChange },
  "undo-email-change": { get: docs.undoEmailChangePage, post: docs.undoEmailChange },
};
