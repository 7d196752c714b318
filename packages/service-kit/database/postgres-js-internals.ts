import type postgres from "postgres";

/** All undocumented parts of postgres.js that are used. Its version is pinned; the tests of this file fail if a part is missing. */

export interface DriverQuery extends Promise<unknown> {
  /** Called once, when the query is first awaited. */
  handler: Handler;
  resolve: (result: unknown) => void;
  reject: (error: unknown) => void;
}
export type Handler = (query: DriverQuery) => void;

/** Sends a query on the driver's connection. */
export function handlerOf(driver: postgres.ISql): Handler {
  return (driver.unsafe("") as unknown as DriverQuery).handler;
}

/** Queries that the driver makes, and `handler` gets. */
export function redirected(driver: postgres.ISql, handler: Handler): postgres.ISql {
  const redirect = <T>(made: T): T => (made instanceof Promise ? Object.assign(made, { handler }) : made);
  const make = driver as unknown as (...parameters: unknown[]) => unknown;
  const sql = (...parameters: unknown[]) => redirect(make(...parameters));
  const unsafe: postgres.ISql["unsafe"] = (...parameters) => redirect(driver.unsafe(...parameters));
  const { array, json, typed, types } = driver;
  return Object.assign(sql, { array, json, typed, types, unsafe }) as unknown as postgres.ISql;
}

/** Sends it with `handler`. The query itself stays unsettled. */
export function send(query: DriverQuery, handler: Handler): Promise<unknown> {
  return new Promise((resolve, reject) => {
    handler(Object.assign(query, { resolve, reject }));
  });
}

/** The driver queries array types itself and leaves a failure of that promise unhandled. */
export function isOfTypeQuery(error: unknown): boolean {
  const { query } = (error ?? {}) as { query?: unknown };
  return typeof query === "string" && query.includes("from pg_catalog.pg_type a");
}
