import { expect, test } from "vitest";
import { DomainError } from "#kit/values/errors.ts";
import {
  needsApproval,
  readApprovedFields,
  transactionDigest,
  transactionText,
} from "./approved-transaction.ts";

const read = (text: string, pointers = ["/amount", "/payee"]) =>
  readApprovedFields(Buffer.from(text), pointers);

function refusal(text: string, pointers?: string[]): unknown {
  try {
    read(text, pointers);
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    return error.fields.length > 0 ? error.fields.map(({ code }) => code) : error.code;
  }
  return "accepted";
}

const FRAME = { user: "u", session: "s", method: "POST", route: "/payments" };

test.each([
  ['{"amount":1}', { "/amount": 1 }],
  ['{"payee":null,"amount":12.50}', { "/amount": 12.5, "/payee": null }],
  ['{"amount":1e2,"other":9007199254740993}', { "/amount": 100 }],
  ['{"amount":-0.0}', { "/amount": -0 }],
  ['{"\\u0061mount":"1"}', { "/amount": "1" }],
  ['{"a":{"amount":1},"payee":{"iban":"X","n":[1.5]}}', { "/payee": { iban: "X", n: [1.5] } }],
  ["[1,2]", {}],
])("of %s the fields are %j", (text, expected) => {
  expect(read(text)).toEqual(expected);
});

test("pointers are followed through arrays, objects and escapes", () => {
  const text = '{"a/b":{"m~n":[{"x":7}]},"":{"01":1}}';
  expect(read(text, ["/a~1b/m~0n/0/x", "/a~1b/m~0n/-", "/a~1b/m~0n/00", "//01"])).toEqual({
    "/a~1b/m~0n/0/x": 7,
    "//01": 1,
  });
  expect(read("{}", ["/constructor", "/toString/length"])).toEqual({});
});

test.each([
  ["a double rounds it", '{"amount":10000.00000000000000001}', ["inexact_number"]],
  ["an integer beyond 2^53", '{"amount":9007199254740993}', ["inexact_number"]],
  ["it overflows", '{"amount":1e400}', ["inexact_number"]],
  ["it underflows", '{"amount":1e-400}', ["inexact_number"]],
  ["more digits than a double has", '{"amount":0.1000000000000000055511151231257827}', ["inexact_number"]],
  ["a text of zeros without end", `{"amount":1${"0".repeat(100)}}`, ["inexact_number"]],
  ["inside an approved object", '{"payee":{"share":[0.12345678901234567890]}}', ["inexact_number"]],
  ["a second key", '{"amount":1,"amount":2}', ["duplicate_key"]],
  ["a second key, deep in another field", '{"amount":1,"x":[{"y":1,"y":2}]}', ["duplicate_key"]],
  ["the same key by an escape", '{"amount":1,"\\u0061mount":2}', ["duplicate_key"]],
  ["another case beside it", '{"amount":1,"Amount":2}', ["duplicate_key"]],
  ["another case in place of it", '{"AMOUNT":2}', ["duplicate_key"]],
  ["a full-width letter", '{"amount":1,"\\uff41mount":2}', ["duplicate_key"]],
  ["a long s", '{"amount":1}', ["duplicate_key"], '{"sum":1,"\u017fum":2}', ["/sum"]],
  ["no JSON", "amount=1", "bad_request"],
  ["nothing", "", "bad_request"],
  ["a byte order mark", '\ufeff{"amount":1}', "bad_request"],
  ["too deep", `${"[".repeat(40)}${"]".repeat(40)}`, "bad_request"],
])("refused: %s", (_name, text, expected, other?: string, pointers?: string[]) => {
  expect(refusal(other ?? text, pointers)).toEqual(expected);
});

test.each([
  ['{"amount":10000}', false],
  ['{"amount":1e4}', false],
  ['{"amount":10000.0}', false],
  ['{"amount":10000.01}', true],
  ['{"amount":10000.000000000002}', true],
  ['{"amount":-20000}', false],
  ['{"amount":"5"}', true],
  ['{"amount":null}', true],
  ['{"amount":[1]}', true],
  ["{}", true],
])("%s above 10000: %s", (text, expected) => {
  const when = { field: "/amount", above: 10_000 };
  expect(needsApproval({ when }, read(text))).toBe(expected);
  expect(needsApproval({ when: undefined }, read(text))).toBe(true);
});

test("the digest covers user, session, method, route and every field, and no order or white space", () => {
  const digest = (frame: typeof FRAME, text: string) =>
    transactionDigest(transactionText(frame, read(text))).toString("hex");
  const one = digest(FRAME, '{"amount":1,"payee":"A"}');
  expect(digest(FRAME, ' { "payee" : "\\u0041", "amount":1.0, "other": 3 }')).toBe(one);
  const others = [
    digest({ ...FRAME, user: "v" }, '{"amount":1,"payee":"A"}'),
    digest({ ...FRAME, session: "v" }, '{"amount":1,"payee":"A"}'),
    digest({ ...FRAME, method: "PUT" }, '{"amount":1,"payee":"A"}'),
    digest({ ...FRAME, route: "/payments?x" }, '{"amount":1,"payee":"A"}'),
    digest(FRAME, '{"amount":2,"payee":"A"}'),
    digest(FRAME, '{"amount":"1","payee":"A"}'),
    digest(FRAME, '{"amount":1,"payee":"B"}'),
    digest(FRAME, '{"amount":1,"payee":["A"]}'),
    digest(FRAME, '{"amount":1,"payee":null}'),
    digest(FRAME, '{"amount":1}'),
    digest(FRAME, '{"data":{"amount":1,"payee":"A"}}'),
  ];
  expect(new Set([one, ...others]).size).toBe(others.length + 1);
});

test("a transaction of more than 16 KiB is refused", () => {
  const fields = { "/payee": "x".repeat(16_384) };
  expect(() => transactionText(FRAME, fields)).toThrow(
    expect.objectContaining({ code: "payload_too_large" }),
  );
});
