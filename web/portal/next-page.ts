import { callApi } from "../ui/api.ts";

const PORTAL = /^\/(?:[a-z-]{1,40}|approvals\/[\da-f-]{36})$/;
const CONSOLE = /^\/console(?:\/[\w-]{1,64}){0,3}$/;
const MAX_CHARACTERS = 2_000;

/** What an address says about the way on. */
export interface Way {
  /** A page of the portal or of the console. */
  next?: string;
  /** Of an application, as it wrote it. Nothing leads there without `findReturn`. */
  return_to?: string;
}

export function wayOf({ next, return_to: to }: Record<string, unknown>): Way {
  const isOurs = typeof next === "string" && (PORTAL.test(next) || CONSOLE.test(next));
  const isText = typeof to === "string" && to.length <= MAX_CHARACTERS;
  return { ...(isOurs && { next }), ...(isText && { return_to: to }) };
}

export interface ReturnTarget {
  name: string;
  url: string;
}

/** Asks the gateway, which has the list. Undefined: nowhere. */
export async function findReturn(to: string | undefined): Promise<ReturnTarget | undefined> {
  if (to === undefined) return undefined;
  const { returnTo } = await callApi(fetch, "GET /auth/return-to", {
    query: { to },
  }).catch(() => ({ returnTo: null }));
  return returnTo ?? undefined;
}

/** For a logged-in person: the page of ours, which knows the way back, else the application. */
export async function wayOn({ next, return_to: to }: Way) {
  const target = next === undefined ? await findReturn(to) : undefined;
  // Another document.
  if (target !== undefined) return { href: target.url, reloadDocument: true };
  if (next !== undefined && CONSOLE.test(next)) return { href: next, reloadDocument: true };
  return { to: next ?? "/", search: next !== undefined && to !== undefined ? { return_to: to } : {} };
}
