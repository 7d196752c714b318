import { expect, test } from "vitest";
import { peerOf, spiffeName } from "./rpc-tls.ts";

test.each([
  ["URI:spiffe://gatehouse/gateway", "gateway"],
  ["DNS:localhost, URI:spiffe://gatehouse/token-service, IP Address:127.0.0.1", "token-service"],
  ["URI:spiffe://elsewhere/gateway", undefined],
  ["URI:spiffe://gatehouse/gateway/admin", undefined],
  ["URI:spiffe://gatehouse/", undefined],
  ["URI:spiffe://gatehouse/gateway, URI:spiffe://gatehouse/operator", undefined],
  ["DNS:spiffe://gatehouse/gateway", undefined],
  ['URI:"spiffe://gatehouse/gateway, URI:x"', undefined],
  [undefined, undefined],
])("the name in %j is %j", (subjectaltname, expected) => {
  expect(spiffeName({ subjectaltname })).toBe(expected);
});

test.each([
  ["URI:spiffe://gatehouse/gateway", { name: "gateway" }],
  ["URI:spiffe://gatehouse/operator/ada.lovelace", { name: "operator", person: "operator:ada.lovelace" }],
  ["URI:spiffe://gatehouse/auditor/eve", { name: "auditor", person: "auditor:eve" }],
  [
    `URI:spiffe://gatehouse/operator/${"a".repeat(31)}`,
    { name: "operator", person: `operator:${"a".repeat(31)}` },
  ],
  [`URI:spiffe://gatehouse/operator/${"a".repeat(32)}`, undefined],
  ["URI:spiffe://gatehouse/operator", undefined],
  ["URI:spiffe://gatehouse/auditor", undefined],
  ["URI:spiffe://gatehouse/operator/", undefined],
  ["URI:spiffe://gatehouse/operator/-ada", undefined],
  ["URI:spiffe://gatehouse/operator/Ada", undefined],
  ["URI:spiffe://gatehouse/operator/ada/bob", undefined],
  ["URI:spiffe://gatehouse/gateway/ada", undefined],
  ["URI:spiffe://gatehouse/operator/ada, URI:spiffe://gatehouse/operator/bob", undefined],
  [undefined, undefined],
])("the peer in %j is %j", (subjectaltname, expected) => {
  expect(peerOf({ subjectaltname })).toEqual(expected);
});
