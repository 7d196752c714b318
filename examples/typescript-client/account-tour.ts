import { ok, type RequestOpts } from "@oazapfts/runtime";
import { getAccount, logIn, logOut, refresh, register, type User } from "./generated/gatehouse.ts";

/** Everything is answered within the gateway's own deadlines; a connection that hangs is not. */
const TIMEOUT_MS = 20_000;

/** What a new user types. */
export interface NewUser {
  email: string;
  password: string;
  firstName: string;
  lastName: string;
}

/**
 * Registers, logs in, asks who it is, refreshes and logs out, each by the generated client.
 *
 * @param baseUrl of a gateway: `http://127.0.0.1:8080`.
 * @returns the account, and the code with which its token is refused after the logout.
 * @throws {HttpError} of `@oazapfts/runtime`, if a step is refused: `data.error.code` says why.
 */
export async function accountTour(
  baseUrl: string,
  newUser: NewUser,
): Promise<{ user: User; afterwards: string }> {
  const call = (token?: string): RequestOpts => ({
    baseUrl,
    signal: AbortSignal.timeout(TIMEOUT_MS),
    ...(token !== undefined && { headers: { authorization: `Bearer ${token}` } }),
  });
  await ok(register(newUser, call()));

  const { email, password } = newUser;
  // Without cookies: the answer has this header too, with what to send at the next login.
  const device = { gatehouseDevice: "new" };
  const { data: login } = await ok(logIn({ email, password }, device, call()));
  // The types do not let one forget that a login can need a second step.
  if (!("accessToken" in login)) throw new Error("this account needs a second step");
  const { data: account } = await ok(getAccount(call(login.accessToken)));

  const { data: tokens } = await ok(refresh({ refreshToken: login.refreshToken }, call()));
  await ok(logOut({ scope: "all" }, call(tokens.accessToken)));

  const afterwards = await getAccount(call(tokens.accessToken));
  if (afterwards.status !== 401) throw new Error(`a dead token was answered ${afterwards.status}`);
  return { user: account.user, afterwards: afterwards.data.error.code };
}
