import { expect, test } from "vitest";
import { httpCall } from "./endpoint.ts";

test("an endpoint becomes a method, a path with its ids encoded, a query without what is undefined, and a body", () => {
  expect(httpCall("GET /auth/me")).toEqual({ method: "GET", path: "/auth/me", body: undefined });
  expect(httpCall("DELETE /auth/sessions/{id}", { path: { id: "../me?x=1" } })).toEqual({
    method: "DELETE",
    path: "/auth/sessions/..%2Fme%3Fx%3D1",
    body: undefined,
  });
  const query = { action: "user.login_failed", cursor: undefined, limit: 5 };
  expect(httpCall("GET /admin/audit", { query }).path).toBe("/admin/audit?action=user.login_failed&limit=5");
  const body = { email: "ada@example.com", password: "Correct-Horse-42" };
  expect(httpCall("POST /auth/login", { body })).toEqual({ method: "POST", path: "/auth/login", body });
});

/** Each line that is marked is an error of the compiler: `npm run typecheck`. */
export function wrong(): unknown[] {
  return [
    // @ts-expect-error no such path
    httpCall("GET /auth/you"),
    // @ts-expect-error another method
    httpCall("PUT /auth/me"),
    // @ts-expect-error the id is missing
    httpCall("DELETE /auth/sessions/{id}"),
    // @ts-expect-error no such field
    httpCall("POST /auth/login", { body: { email: "a@example.com", password: "p", remember: true } }),
    // @ts-expect-error no such value
    httpCall("GET /admin/users", { query: { status: "gone" } }),
  ];
}
