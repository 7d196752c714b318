import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { status } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { HTTP_STATUS } from "../gateway/http-errors.ts";
import { DomainError, ERROR_CATALOGUE, type ErrorCode } from "../service-kit/errors.ts";
import { toRpcError } from "../service-kit/rpc-errors.ts";

const page = readFileSync(resolve(import.meta.dirname, "..", "docs", "errors.md"), "utf8");
const rows = [...page.matchAll(/^\| `(\w+)` \| (\d+) \| (\w+) \| (.+) \|$/gm)].map(
  ([, code, http, rpc, text]) => ({
    code,
    http: Number(http),
    rpc,
    text,
  }),
);

test("docs/errors.md lists every code once, with its statuses and its sentence", () => {
  const catalogue = (Object.keys(ERROR_CATALOGUE) as ErrorCode[]).map((code) => ({
    code,
    http: HTTP_STATUS[code],
    rpc: status[toRpcError(new DomainError(code)).code ?? -1],
    text: ERROR_CATALOGUE[code],
  }));
  expect(rows).toEqual(catalogue);
});
