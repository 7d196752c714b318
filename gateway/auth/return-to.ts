import { z } from "zod";
import { isThisHost } from "#kit/values/network-of.ts";
import { success } from "../edge/answers/envelope.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { textField, textLike } from "../routing/fields.ts";
import { answersWith } from "../routing/route-docs.ts";

const MAX_CHARACTERS = 2_000;
/** Servers disagree about whether these separate segments. */
const HIDDEN_SEPARATOR = /%(?:2e|2f|5c)/i;

/** An application to which the portal may send a person back. */
export interface ReturnTarget {
  /** Shown to people. */
  name: string;
  /** `https://shop.example/checkout/`: this address, and if it ends with a slash all below. */
  prefix: string;
}

/** `Shop=https://shop.example/` or only the address. Undefined for anything else. */
export function parseReturnTarget(entry: string): ReturnTarget | undefined {
  const [, name, address = ""] = /^(?:([^=<>]{1,40})=)?(https?:\/\/[\w.~:/[\]-]{1,500})$/.exec(entry) ?? [];
  const url = canonicalUrl(address);
  if (url === undefined || url.search !== "" || url.hash !== "" || /[?#]/.test(address)) return undefined;
  return { name: name ?? url.host, prefix: url.href };
}

/**
 * The address as the parser of browsers writes it, if it is one of the targets.
 * @param to as the application gave it. Whatever the parser would change is refused.
 */
export function findReturn(
  targets: readonly ReturnTarget[],
  to: string,
): { name: string; url: string } | undefined {
  const url = to.length > MAX_CHARACTERS ? undefined : canonicalUrl(to);
  if (url === undefined || HIDDEN_SEPARATOR.test(url.pathname)) return undefined;
  const path = url.origin + url.pathname;
  const target = targets.find(({ prefix }) =>
    prefix.endsWith("/") ? path.startsWith(prefix) : path === prefix,
  );
  return target && { name: target.name, url: url.href };
}

function canonicalUrl(text: string): URL | undefined {
  const url = URL.parse(text);
  if (url === null || (url.href !== text && url.href !== `${text}/`)) return undefined;
  if (url.username !== "" || url.password !== "") return undefined;
  // Without a secure connection, only what runs on the user's own machine.
  const isSecure = url.protocol === "https:" || (url.protocol === "http:" && isThisHost(url.hostname));
  return isSecure ? url : undefined;
}

export interface ReturnDeps {
  /** To which the portal may send a person back. */
  returnTargets: readonly ReturnTarget[];
}

const EXAMPLE = "https://shop.example/cart";

const returnAnswer = z
  .strictObject({ name: textLike("Shop", "Of the application."), url: textLike(EXAMPLE) })
  .nullable();

/** For pages, which do not know the list and decide nothing. */
export function registerReturnRoutes(app: GatewayApp, { returnTargets }: ReturnDeps): void {
  const route = routeIn(app, "Logins");

  route("findReturn", "GET", "/auth/return-to", {
    summary: "Ask whether a page may send a person to an address",
    policy: { auth: "public", limitClass: "page" },
    schema: { querystring: z.strictObject({ to: textField(1, 2_000, { examples: [EXAMPLE] }) }) },
    answers: answersWith(
      "Null unless the operator has listed it.",
      z.strictObject({ returnTo: returnAnswer }),
    ),
    handler: async (request) => {
      const returnTo = findReturn(returnTargets, request.query.to) ?? null;
      return success({ returnTo }, "Where a page may lead.");
    },
  });
}
