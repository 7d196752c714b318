import { useNavigate } from "@tanstack/react-router";
import { lazy, type ReactNode, Suspense, useState } from "react";
import type {
  CompletedLogin,
  MfaEnrollmentRequired,
  MfaRequired,
  PasswordChangeRequired,
} from "#clients/api/generated/gatehouse.ts";
import { useSession } from "../session/session.ts";
import { Loading } from "../ui/notice.tsx";
import { type Way, wayOn } from "./next-page.ts";
import { later } from "./text.ts";

/** Most logins end without one. */
const LoginStep = lazy(
  later(() => import("./login-step.tsx").then(({ LoginStep: step }) => ({ default: step }))),
);

/** What a step of a login answers: docs/http.md, "Steps of a login". */
export type LoginAnswer =
  | Pick<CompletedLogin, "user">
  | MfaRequired
  | PasswordChangeRequired
  | MfaEnrollmentRequired;

const isComplete = (answer: LoginAnswer): answer is Pick<CompletedLogin, "user"> =>
  !("requireMfa" in answer || "requirePasswordChange" in answer || "requireMfaEnrollment" in answer);

/**
 * Goes on with a login until its session has begun, and then on the way.
 * @param startAgain for a page on which no login begins.
 * @returns `go`, for each answer, and `step`: what the login asks for now, in place of the page.
 */
export function useLoginSteps(
  way: Way,
  startAgain?: () => void,
): { go: (answer: LoginAnswer) => Promise<void>; step: ReactNode } {
  const session = useSession();
  const navigate = useNavigate();
  const [step, setStep] = useState<LoginAnswer>();
  const go = async (answer: LoginAnswer) => {
    if (!isComplete(answer)) return setStep(answer);
    await session.load();
    await navigate(await wayOn(way));
  };
  return {
    go,
    step: step && (
      <Suspense fallback={<Loading />}>
        <LoginStep step={step} onAnswer={go} onCancel={startAgain ?? (() => setStep(undefined))} />
      </Suspense>
    ),
  };
}
