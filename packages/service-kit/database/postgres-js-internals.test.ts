import postgres from "postgres";
import { expect, test, vi } from "vitest";
import { type DriverQuery, handlerOf, isOfTypeQuery, redirected, send } from "./postgres-js-internals.ts";

/** It never connects. */
const driver = postgres("postgres://127.0.0.1:1/any", { max: 1 });

test("the driver has a handler, which each of its queries carries", () => {
  const handler = handlerOf(driver);
  expect(handler).toBeTypeOf("function");
  const queries = [driver`select 1`, driver.unsafe("select 1")] as unknown as DriverQuery[];
  expect(queries.map((query) => query.handler)).toEqual([handler, handler]);
});

test("a redirected query reaches its new handler when it is awaited, once, and has the answer that it is given", async () => {
  const handler = vi.fn((query: DriverQuery) => query.resolve("answer"));
  const sql = redirected(driver, handler);
  const queries = [sql`select ${1}`, sql.unsafe("select 1")];
  expect(handler).not.toHaveBeenCalled();
  expect(await Promise.all(queries)).toEqual(["answer", "answer"]);
  expect(await queries[0]).toBe("answer");
  expect(handler).toHaveBeenCalledTimes(2);
});

test("parts of statements stay parts", () => {
  const sql = redirected(driver, vi.fn());
  expect(sql(["a", "b"])).not.toBeInstanceOf(Promise);
  expect([sql.array, sql.json, sql.typed, sql.types]).toEqual([
    driver.array,
    driver.json,
    driver.typed,
    driver.types,
  ]);
});

test("an answer, or a failure, comes from the handler that sends the query", async () => {
  const query = driver`select 1` as unknown as DriverQuery;
  expect(await send(query, ({ resolve }) => resolve("answer"))).toBe("answer");
  const failure = new Error("lost");
  await expect(send(query, ({ reject }) => reject(failure))).rejects.toBe(failure);
});

test("a failure names the driver's own query for types", () => {
  expect(isOfTypeQuery({ query: "select b.oid from pg_catalog.pg_type a" })).toBe(true);
  expect([undefined, new Error("other"), { query: "select 1" }].map(isOfTypeQuery)).toEqual([
    false,
    false,
    false,
  ]);
});
