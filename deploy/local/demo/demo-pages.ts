import { createHash } from "node:crypto";
import { escapeHtml } from "../../../service-kit/escape-html.ts";
import type { DemoUser } from "./demo-users.ts";

const STYLE =
  "body{margin:0 auto;padding:2rem 1rem;max-width:40rem;font:1rem/1.5 system-ui,sans-serif;color:#1a1a1a;background:#fff}" +
  "h1{font-size:1.5rem;line-height:1.3}button{display:block;width:100%;margin:.75rem 0;padding:.75rem 1rem;" +
  "border:1px solid #1a4fa0;border-radius:4px;font:inherit;text-align:left;color:#1a1a1a;background:#f3f7fd;cursor:pointer}" +
  "small{color:#595959}dt{font-weight:600}dd{margin:0 0 .5rem;overflow-wrap:anywhere}" +
  ":focus-visible{outline:3px solid #1a4fa0;outline-offset:2px}a{color:#1a4fa0}";

/**
 * What a client does with what a login brings back: takes it out of the address at once, so that it is neither in the
 * history nor sent on, and keeps it in memory. Here it is only shown, without the tokens themselves.
 */
const SCRIPT = `
const given = new URLSearchParams(location.hash.slice(1));
history.replaceState(null, "", location.pathname);
const title = document.querySelector("h1");
const list = document.querySelector("dl");
const show = (name, value) => {
  list.append(Object.assign(document.createElement("dt"), { textContent: name }));
  list.append(Object.assign(document.createElement("dd"), { textContent: value }));
};
const part = (text) => atob(text.replaceAll("-", "+").replaceAll("_", "/"));
if (given.has("accessToken")) {
  title.textContent = "You are logged in";
  const claims = JSON.parse(part(given.get("accessToken").split(".")[1]));
  for (const [name, value] of Object.entries(claims)) show(name, String(value));
} else if (given.has("requireMfa")) {
  title.textContent = "A code of your second factor is needed";
  show("tempToken", "for POST /auth/mfa/verify");
} else if (given.has("linked")) {
  title.textContent = "The account is linked";
  show("provider", given.get("linked"));
} else if (given.has("error")) {
  title.textContent = "The login did not work";
  show("error", given.get("error"));
} else {
  title.textContent = "Nothing came back";
}
`;

const hash = (text: string) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

export const PAGE_HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "cache-control": "no-store",
  "referrer-policy": "no-referrer",
  "content-security-policy": `default-src 'none'; style-src ${hash(STYLE)}; script-src ${hash(SCRIPT)}; base-uri 'none'; frame-ancestors 'none'`,
} as const;

/** The page of the demo provider on which a user says who they are. */
export function loginPage(uid: string, users: readonly DemoUser[]): string {
  const button = (id: string, text: string, note: string) =>
    `<form method="post" action="/login/${encodeURIComponent(uid)}/${encodeURIComponent(id)}">
<button type="submit" name="user" value="${escapeHtml(id)}">${escapeHtml(text)}<br><small>${escapeHtml(note)}</small></button>
</form>`;
  const choices = users.map(({ id, claims }) =>
    button(
      id,
      `${claims.given_name} ${claims.family_name}`,
      `${claims.email}, ${claims.email_verified ? "checked" : "not checked"} by this provider`,
    ),
  );
  return frame(
    "Demo identity provider",
    `<p>It runs on this machine only and asks for no password. Who are you?</p>
${choices.join("\n")}
${button("nobody", "Nobody", "declines the login")}`,
  );
}

/** The page of a client on which a browser lands after a login. */
export function signedInPage(gatewayUrl: string): string {
  return frame(
    "…",
    `<dl></dl>
<p><a href="${escapeHtml(gatewayUrl)}/auth/demo">Log in again</a></p>
<script>${SCRIPT}</script>`,
  );
}

function frame(title: string, content: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Gatehouse: demo login</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${title}</h1>
${content}
</main>
</body>
</html>
`;
}
