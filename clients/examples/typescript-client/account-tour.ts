import { type Answer, type Endpoint, type GivenTo, httpCall } from "../../api/endpoint.ts";
import type { User } from "../../api/generated/gatehouse.ts";

/** For hanging connections. The gateway has its own deadlines. */
const TIMEOUT_MS = 20_000;

export interface NewUser {
  email: string;
  password: string;
  firstName: string;
  lastName: string;
}

/** The gateway has refused a call: see docs/errors.md for its codes. */
class Refused extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string) {
    super(`${status} ${code}`);
    this.status = status;
    this.code = code;
  }
}

/**
 * @param fetch sends the calls, for clients that repeat some of them.
 * @returns the account, and the error code of its token after the logout.
 * @throws an error with the `status` and `code` of a step that is refused.
 */
export async function accountTour(
  baseUrl: string,
  newUser: NewUser,
  fetch = globalThis.fetch,
): Promise<{ user: User; afterwards: string }> {
  /** A wrong path or field does not compile. */
  async function call<E extends Endpoint>(
    headers: Record<string, string>,
    endpoint: E,
    ...given: GivenTo<E>
  ): Promise<Answer<E>> {
    const { method, path, body } = httpCall(endpoint, ...given);
    const response = await fetch(baseUrl + path, {
      method,
      headers: { ...headers, ...(body !== undefined && { "content-type": "application/json" }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const answer = (await response.json()) as { data: Answer<E>; error?: { code: string } };
    if (!response.ok) throw new Refused(response.status, answer.error?.code ?? "");
    return answer.data;
  }
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
  await call({}, "POST /auth/register", { body: newUser });

  const { email, password } = newUser;
  // Clients without cookies send the value of this response header at the next login.
  const device = { "gatehouse-device": "new" };
  const login = await call(device, "POST /auth/login", { body: { email, password } });
  // The types require a check for a second step.
  if (!("accessToken" in login)) throw new Error("this account needs a second step");
  const { user } = await call(bearer(login.accessToken), "GET /auth/me");

  // Absent only with `gatehouse-client: browser`, where a cookie has it.
  const { refreshToken = "" } = login;
  const tokens = await call({}, "POST /auth/refresh", { body: { refreshToken } });
  await call(bearer(tokens.accessToken), "POST /auth/logout", { body: { scope: "all" } });

  const afterwards = await call(bearer(tokens.accessToken), "GET /auth/me").catch((error: unknown) => error);
  if (!(afterwards instanceof Refused && afterwards.status === 401))
    throw new Error("the token is still taken after the logout");
  return { user, afterwards: afterwards.code };
}
