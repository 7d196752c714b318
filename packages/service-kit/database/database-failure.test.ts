import { expect, test } from "vitest";
import { DomainError } from "../values/errors.ts";
import { causeOfUnavailable, nameFailures } from "./database-failure.ts";

test("temporary failures become unavailable with a retry after a second; other errors are unchanged", async () => {
  const cause = { code: "57014" };
  await expect(nameFailures(Promise.reject(cause), undefined)).rejects.toMatchObject({
    name: "DomainError",
    code: "service_unavailable",
    retryAfterMs: 1_000,
    cause,
  });
  const other = new Error("a defect");
  await expect(nameFailures(Promise.reject(other), 60_000)).rejects.toBe(other);
  await expect(nameFailures(Promise.resolve("done"), 60_000)).resolves.toBe("done");
});

test("work that has not ended in time is unavailable", async () => {
  await expect(nameFailures(new Promise(() => {}), 1)).rejects.toMatchObject({ code: "service_unavailable" });
});

test("the cause is searched only in errors of an unavailable database", () => {
  const cause = new Error("connect ECONNREFUSED");
  expect(causeOfUnavailable(new DomainError("service_unavailable", undefined, { cause }))).toBe(cause);
  expect(causeOfUnavailable(new DomainError("service_unavailable"))).toBeUndefined();
  expect(causeOfUnavailable(new DomainError("conflict", undefined, { cause }))).toBeUndefined();
  expect(causeOfUnavailable(new Error("other", { cause }))).toBeUndefined();
});

test("SQLSTATEs and driver codes of temporary failures", async () => {
  const unavailable = [
    "08000",
    "08006",
    "28000",
    "28P01",
    "3D000",
    "53000",
    "53300",
    "57P01",
    "57P02",
    "57P03",
    "57014",
    "55P03",
    "40001",
    "40P01",
    "25006",
    "CONNECTION_CLOSED",
    "CONNECTION_ENDED",
    "CONNECTION_DESTROYED",
    "CONNECTION_BUSY",
    "CONNECTION_TOO_LATE",
    "CONNECT_TIMEOUT",
    "ECONNREFUSED",
    "ECONNRESET",
    "EPIPE",
    "ETIMEDOUT",
    "EHOSTUNREACH",
    "ENETUNREACH",
    "ENOTFOUND",
    "EAI_AGAIN",
  ];
  for (const code of unavailable) {
    const failure = nameFailures(Promise.reject({ code }), undefined);
    await expect(failure, code).rejects.toMatchObject({ code: "service_unavailable", cause: { code } });
  }
  const longer = ["x57014", "57014x", "xEPIPE", "EPIPEx", "xCONNECTION_CLOSED"];
  for (const code of [
    "23505",
    "23503",
    "42P01",
    "42501",
    "22P02",
    "25P02",
    "XX000",
    "",
    undefined,
    53300,
    ...longer,
  ]) {
    const error = { code };
    await expect(nameFailures(Promise.reject(error), undefined), String(code)).rejects.toBe(error);
  }
  await expect(nameFailures(Promise.reject(null), undefined)).rejects.toBe(null);
});
