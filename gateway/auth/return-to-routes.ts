import { z } from "zod";
import { success } from "../edge/answers/envelope.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { textField, textLike } from "../routing/fields.ts";
import { answersWith } from "../routing/route-docs.ts";
import { findReturn, type ReturnTarget } from "./return-to.ts";

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
