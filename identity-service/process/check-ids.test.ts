import { expect, test } from "vitest";
import { IdentityServiceService } from "#proto/gatehouse/identity/v1/identity_service.ts";
import { UserAdminServiceService } from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import { withCheckedIds } from "./check-ids.ts";

/** What each method is called with when a caller sends nothing at all. */
const methods = [...Object.entries(IdentityServiceService), ...Object.entries(UserAdminServiceService)].map(
  ([name, { requestDeserialize }]) => ({
    name,
    request: requestDeserialize(Buffer.alloc(0)) as unknown as Record<string, unknown>,
  }),
);
const called = (request: unknown) => {
  const reached = async () => "reached";
  const { method } = withCheckedIds<{ method: never }>({ method: reached } as never) as unknown as {
    method: (request: unknown) => Promise<unknown>;
  };
  return method(request);
};

test("a request that names a user by nothing is the caller's mistake, whatever the method", async () => {
  const naming = methods.filter(({ request }) => "userId" in request);
  expect(naming.length).toBeGreaterThanOrEqual(15);
  for (const { name, request } of naming) {
    await expect(called(request), name).rejects.toMatchObject({
      code: "validation_failed",
      fields: expect.arrayContaining([expect.objectContaining({ field: "userId" })]),
    });
  }
});

test.each([
  [{ userId: "1" }, "userId"],
  [{ userId: "00000000-0000-4000-8000-00000000000g" }, "userId"],
  [{ owner: { userId: "" } }, "owner.userId"],
])("%j is refused", async (request, field) => {
  await expect(called(request)).rejects.toMatchObject({ code: "validation_failed", fields: [{ field }] });
});

test.each([{}, { owner: undefined }, { userId: "018f7f5e-0000-7000-8000-000000000001", sessionId: "" }])(
  "%j passes",
  async (request) => {
    expect(await called(request)).toBe("reached");
  },
);
