/** What the gateway answered. `status` 0: nothing, and `code` says why. */
export interface Answer {
  status: number;
  code?: string | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: the checks below look at it
  data?: any;
}

export interface Payment {
  amount: number;
  currency: string;
  payee: string;
  reference: string;
}

/** Says what is wrong with an answer; undefined if it is right. */
export type Check = (answer: Answer) => string | undefined;

const expectStatus = (answer: Answer, status: number): string | undefined =>
  answer.status === status ? undefined : `${answer.status} ${answer.code ?? "without a code"}`;

export const isRefused: Check = (answer) => expectStatus(answer, 401);

export const isDone: Check = (answer) => expectStatus(answer, 200);

export const isPaymentList: Check = (answer) =>
  expectStatus(answer, 200) ?? (Array.isArray(answer.data?.payments) ? undefined : "200 without payments");

export const isPayeeList: Check = (answer) =>
  expectStatus(answer, 200) ?? (Array.isArray(answer.data?.payees) ? undefined : "200 without payees");

/** A payment of another order, or of another user, would be worse than a failure. */
export function isPaymentOf(order: Payment, userId: string): Check {
  return (answer) => {
    const wrong = expectStatus(answer, 201);
    if (wrong !== undefined) return wrong;
    const payment = answer.data?.payment ?? {};
    const same = Object.entries({ ...order, userId }).every(([key, value]) => payment[key] === value);
    return same ? undefined : "201 with another payment";
  };
}

export function isAccountOf(email: string): Check {
  return (answer) =>
    expectStatus(answer, 200) ??
    (answer.data?.user?.email === email ? undefined : "200 with another account");
}

/** Fresh tokens, whose subject is the user. Their signatures are the gateway's to check, at the next call. */
export function isSessionOf(userId: string, formerRefreshToken?: string): Check {
  return (answer) => {
    const wrong = expectStatus(answer, 200);
    if (wrong !== undefined) return wrong;
    const { accessToken, refreshToken } = answer.data ?? {};
    if (typeof accessToken !== "string" || typeof refreshToken !== "string") return "200 without tokens";
    if (refreshToken === formerRefreshToken) return "200 with the former refresh token";
    return subjectOf(accessToken) === userId ? undefined : "200 with another user's token";
  };
}

function subjectOf(accessToken: string): unknown {
  try {
    return JSON.parse(Buffer.from(accessToken.split(".")[1] ?? "", "base64url").toString("utf8")).sub;
  } catch {
    return undefined;
  }
}
