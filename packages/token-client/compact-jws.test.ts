import { expect, test } from "vitest";
import { isKeyId, parseCompactJws } from "./compact-jws.ts";

const part = (text: string | Uint8Array) => Buffer.from(text as string).toString("base64url");
const HEADER = { alg: "EdDSA", typ: "at+jwt", kid: "k" };
const header = (value: unknown = HEADER) => part(JSON.stringify(value));
const PAYLOAD = part('{"a":1}');

test("a token in the signer's form is parsed", () => {
  const text = `${header()}.${PAYLOAD}.c2ln`;
  expect(parseCompactJws(text)).toEqual({ header: HEADER, payload: { a: 1 }, text });
});

test("a token has at most 4,096 characters", () => {
  expect([4_096, 4_097].map((length) => parseCompactJws("x".repeat(length)))).toEqual(["form", "length"]);
});

test.each([
  ["one segment", header()],
  ["two segments", `${header()}.${PAYLOAD}`],
  ["four segments", `${header()}.${PAYLOAD}.c2ln.c2ln`],
  ["an empty header", `.${PAYLOAD}.c2ln`],
  ["an empty payload", `${header()}..c2ln`],
  ["an empty signature", `${header()}.${PAYLOAD}.`],
  ["padding", `${header()}.${PAYLOAD}.c2k=`],
  ["unused bits that are not zero", `${header()}.${PAYLOAD}.c2l`],
  ["the alphabet of plain base64", `${header()}.${PAYLOAD}.++++`],
  ["a payload that is a list", `${header()}.${part("[]")}.c2ln`],
  ["a payload that is null", `${header()}.${part("null")}.c2ln`],
  ["a payload that is a number", `${header()}.${part("1")}.c2ln`],
  ["a payload that is no JSON", `${header()}.${part("{")}.c2ln`],
  ["a payload with a space", `${header()}.${part('{"a": 1}')}.c2ln`],
  ["a payload with a member twice", `${header()}.${part('{"a":1,"a":1}')}.c2ln`],
  ["a payload with a byte order mark", `${header()}.${part('\ufeff{"a":1}')}.c2ln`],
  ["a payload that is not UTF-8", `${header()}.${part(Uint8Array.of(0x22, 0xff, 0x22))}.c2ln`],
  [
    "a payload with a character that is not UTF-8",
    `${header()}.${part(Buffer.from('{"a":"\u00e9"}', "latin1"))}.c2ln`,
  ],
])("%s is not the form", (_what, text) => {
  expect(parseCompactJws(text)).toBe("form");
});

test.each([
  ["no JSON", part("x")],
  ["a list", header([])],
  ["no members", header({})],
  ["a member too few", header({ alg: "EdDSA", typ: "at+jwt" })],
  ["a member too many", header({ ...HEADER, crit: "b64" })],
  ["another member in the place of one", header({ alg: "EdDSA", typ: "at+jwt", jku: "k" })],
  ["a member that is no text", header({ ...HEADER, kid: 1 })],
])("a header that has or is %s is refused as a header", (_what, text) => {
  expect(parseCompactJws(`${text}.${PAYLOAD}.c2ln`)).toBe("header");
});

test("a key's name is 43 characters of base64url", () => {
  const texts = [
    "aZ09_-k".padEnd(43, "A"),
    "A".repeat(42),
    "A".repeat(44),
    `${"A".repeat(42)}+`,
    `${"A".repeat(43)}\n`,
  ];
  expect(texts.map(isKeyId)).toEqual([true, false, false, false, false]);
});
