import { ok, type RequestOpts } from "@oazapfts/runtime";
import { getAccount, logIn, logOut, refresh, register, type User } from "../../api/generated/gatehouse.ts";

/** For hanging connections. The gateway has its own deadlines. */
const TIMEOUT_MS = 20_000;

export interface NewUser {
  email: string;
  password: string;
  firstName: string;
  lastName: string;
}

/**
 * @param fetch sends the calls, for clients that repeat some of them. Default: the runtime's.
 * @returns the account, and the error code of its token after the logout.
 * @throws {HttpError} of `@oazapfts/runtime`, with `data.error.code`, if a step is refused.
 */
export async function accountTour(
  baseUrl: string,
  newUser: NewUser,
  fetch = globalThis.fetch,
): Promise<{ user: User; afterwards: string }> {
  const call = (token?: string): RequestOpts => ({
    baseUrl,
    fetch,
    signal: AbortSignal.timeout(TIMEOUT_MS),
    ...(token !== undefined && { headers: { authorization: `Bearer ${token}` } }),
  });
  await ok(register(newUser, call()));

  const { email, password } = newUser;
  // Clients without cookies send the value of this response header at the next login.
  const device = { gatehouseDevice: "new" };
  const { data: login } = await ok(logIn({ email, password }, device, call()));
  // The types require a check for a second step.
  if (!("accessToken" in login)) throw new Error("this account needs a second step");
  const { data: account } = await ok(getAccount(call(login.accessToken)));

  // Absent only with `gatehouseClient: "browser"`, where a cookie has it.
  const { refreshToken = "" } = login;
  const { data: tokens } = await ok(refresh({ refreshToken }, {}, call()));
  await ok(logOut({ scope: "all" }, {}, call(tokens.accessToken)));

  const afterwards = await getAccount(call(tokens.accessToken));
  if (afterwards.status !== 401)
    throw new Error(`after the logout the token was answered with ${afterwards.status}`);
  return { user: account.user, afterwards: afterwards.data.error.code };
}
