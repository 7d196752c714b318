import type { CallContext } from "../service-kit/call-context.ts";
import type { LoginRefusal, login } from "./login.ts";
import type { Throttle } from "./throttle.ts";
import { type ThrottledAttempt, type ThrottleLoginDeps, throttleLogin } from "./throttle-login.ts";

/** A login that was refused, for the audit log. */
export interface FailedLogin {
  /** Whose account it was for; undefined if there is none. */
  userId: string | undefined;
  reason: LoginRefusal["reason"] | "locked";
  clientIp: string;
  userAgent: string;
}

export interface AuditedLoginDeps extends ThrottleLoginDeps {
  /**
   * Takes a failed login for the audit log, without waiting and without failing. It does the same work whatever the
   * reason: that is told to the log only.
   */
  noteFailedLogin: (failed: FailedLogin, context: CallContext) => void;
}

/** `throttleLogin`, which tells the audit log why a login was refused, and whose account it was for. */
export async function auditedLogin(
  deps: AuditedLoginDeps,
  attempt: ThrottledAttempt,
  context: CallContext,
): ReturnType<typeof login> {
  const { clientIp, userAgent } = attempt;
  let isLocked = false;
  const throttle: Throttle = {
    ...deps.throttle,
    take: async (guess) => {
      const admission = await deps.throttle.take(guess);
      isLocked = admission.kind === "locked";
      return admission;
    },
  };
  const onRefused = ({ userId, reason }: LoginRefusal) =>
    deps.noteFailedLogin({ userId, reason: isLocked ? "locked" : reason, clientIp, userAgent }, context);
  return throttleLogin({ ...deps, throttle, onRefused }, attempt, context);
}
