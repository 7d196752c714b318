import { createHash } from "node:crypto";
import type { FastifyRequest } from "fastify";
import type { DomainError } from "#kit/values/errors.ts";
import { escapeHtml } from "#kit/values/escape-html.ts";

/** `action` is the audit action. */
export const LINK_PAGES = {
  "verify-email": {
    action: "auth.verify_email",
    title: "Confirm your e-mail address",
    text:
      "Confirm that you can read mail at this address. With the password of the account you also confirm that you made " +
      "it: a second factor and other logins can be set up then.",
    password: "own-optional",
    button: "Confirm the address",
    done: "Your e-mail address is confirmed",
    next: "You can close this page.",
    other: { page: "disown-account", text: "Somebody else made an account with your address?" },
  },
  "disown-account": {
    action: "auth.disown_account",
    title: "I did not make this account",
    text:
      "Whoever made the account with your address is logged out and can no longer log in: its password and everything " +
      "else that opens it are removed.",
    password: "none",
    button: "I did not make this account",
    done: "The account can no longer be used",
    next: "If you want to use it yourself, ask for a new password with your e-mail address.",
    other: undefined,
  },
  "reset-password": {
    action: "auth.reset_password",
    title: "Choose a new password",
    text:
      "It logs you out everywhere, and removes logins at providers that were linked in the last 30 days: link them again if " +
      "they are yours.",
    password: "new",
    button: "Set the password",
    done: "Your password was set",
    next: "You were logged out everywhere. Log in with the new password.",
    other: undefined,
  },
  "confirm-email-change": {
    action: "auth.confirm_email_change",
    title: "Use this e-mail address",
    text:
      "Confirm with the password of your account that it is to have the address that this mail went to. If the account " +
      "is not yours, close this page: nothing changes.",
    password: "own",
    button: "Use this address",
    done: "Your e-mail address was changed",
    next: "Log in with it from now on. The old address has got a mail with a way back, if it was confirmed.",
    other: undefined,
  },
  "undo-email-change": {
    action: "auth.undo_email_change",
    title: "Take your e-mail address back",
    text: "Your account gets the address back that this mail went to, and everybody is logged out of it.",
    password: "none",
    button: "Take the address back",
    done: "Your e-mail address is back",
    next: "Everybody was logged out and the password is gone. A link to set a new one is on its way to this address.",
    other: undefined,
  },
  "undo-access-change": {
    action: "auth.undo_access_change",
    title: "This was not me",
    text:
      "Everybody is logged out of your account. The password goes, and so does what was set up lately to log in with: a " +
      "second factor of the last 7 days, logins at providers of the last 30 days.",
    password: "none",
    button: "It was not me",
    done: "All sessions of your account have ended",
    next: "A link to set a new password is on its way to your address.",
    other: undefined,
  },
} as const;

export type LinkPage = keyof typeof LINK_PAGES;

/** Whose page it is. */
export interface PageBrand {
  name: string;
  /** An address. */
  support?: string | undefined;
}

/** A page of a link, and whose it is. */
interface BrandedLink {
  page: LinkPage;
  brand: PageBrand;
}

type PasswordKind = (typeof LINK_PAGES)[LinkPage]["password"];

const STYLE =
  "body{margin:0 auto;padding:2rem 1rem;max-width:34rem;font:1rem/1.5 system-ui,sans-serif;color:#1a1a1a;background:#fff}" +
  "h1{font-size:1.5rem;line-height:1.3}label{display:block;margin:1rem 0 .25rem}" +
  "input{box-sizing:border-box;width:100%;padding:.6rem;border:1px solid #595959;border-radius:4px;font:inherit}" +
  "button{margin-top:1rem;padding:.6rem 1.2rem;border:0;border-radius:4px;font:inherit;color:#fff;background:#1a4fa0}" +
  ":focus-visible{outline:3px solid #1a4fa0;outline-offset:2px}" +
  "[role=alert]{padding:.6rem;border-left:4px solid #b00020;background:#fdecee}";
const STYLE_HASH = createHash("sha256").update(STYLE).digest("base64");

export const PAGE_HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`,
} as const;

const MAX_TOKEN_CHARACTERS = 200;

/** @param problem why the last attempt was refused. */
export function linkPage({ page, brand }: BrandedLink, token: string, problem?: string): string {
  const { title, text, password, button, other } = LINK_PAGES[page];
  const alert = problem === undefined ? "" : `<p role="alert" id="problem">${escapeHtml(problem)}</p>\n`;
  const described = problem === undefined ? "" : ' aria-invalid="true" aria-describedby="problem"';
  return frame(
    brand,
    title,
    `<p>${text}</p>
${alert}${form(page, token, passwordInput(password, described), button)}${
  other === undefined
    ? ""
    : `
<p>${other.text}</p>
${form(other.page, token, "", LINK_PAGES[other.page].button)}`
}`,
  );
}

function form(page: LinkPage, token: string, input: string, button: string): string {
  return `<form method="post" action="/auth/${page}">
<input type="hidden" name="token" value="${escapeHtml(token)}">
${input}<button type="submit">${button}</button>
</form>`;
}

function passwordInput(kind: PasswordKind, described: string): string {
  switch (kind) {
    case "none":
      return "";
    case "new":
      return `<label for="new-password">New password</label>
<input id="new-password" name="newPassword" type="password" autocomplete="new-password" required maxlength="1024"${described}>\n`;
    case "own":
      return `<label for="password">Password of your account (leave it empty if support sent the link)</label>
<input id="password" name="password" type="password" autocomplete="current-password" maxlength="1024"${described}>\n`;
    case "own-optional":
      return `<label for="password">Password of the account (leave it empty if it has none)</label>
<input id="password" name="password" type="password" autocomplete="current-password" maxlength="1024"${described}>\n`;
  }
}

export function donePage({ page, brand }: BrandedLink): string {
  const { done, next } = LINK_PAGES[page];
  return frame(brand, done, `<p role="status">${next}</p>`);
}

export function failurePage(
  link: BrandedLink,
  error: DomainError,
  message: string,
  request: FastifyRequest,
): string {
  const { token } = (request.body ?? {}) as { token?: unknown };
  const hasToken = typeof token === "string" && token.length > 0 && token.length <= MAX_TOKEN_CHARACTERS;
  const isOver = error.code === "verification_token_invalid" || error.code === "reset_token_invalid";
  if (isOver)
    return frame(
      link.brand,
      "This link is no longer valid",
      "<p>It was used already, is too old, or a newer one was sent. Ask for a new one.</p>",
    );
  if (!hasToken)
    return frame(
      link.brand,
      "This link is not complete",
      "<p>Open it from the mail once more, or copy all of it.</p>",
    );
  const [field] = error.fields;
  return linkPage(link, token, field === undefined ? message : `The password ${field.message}.`);
}

export function messagePage(brand: PageBrand, title: string, message: string): string {
  return frame(brand, title, `<p>${escapeHtml(message)}</p>`);
}

function frame(brand: PageBrand, title: string, content: string): string {
  const name = escapeHtml(brand.name);
  const support =
    brand.support === undefined
      ? ""
      : `\n<footer><a href="${escapeHtml(brand.support)}">Support</a></footer>`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex">
<title>${title} – ${name}</title>
<style>${STYLE}</style>
</head>
<body>
<header>${name}</header>
<main>
<h1>${title}</h1>
${content}
</main>${support}
</body>
</html>
`;
}
