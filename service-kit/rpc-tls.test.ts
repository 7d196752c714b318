import { expect, test } from "vitest";
import { spiffeName } from "./rpc-tls.ts";

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
