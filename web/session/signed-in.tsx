import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { Outlet } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { GatehouseError } from "#clients/browser/gateway-calls.ts";
import { Button } from "../ui/button.tsx";
import { useAction } from "../ui/form.tsx";
import { Frame } from "../ui/frame.tsx";
import { Notice } from "../ui/notice.tsx";
import { Attendance } from "./attendance.tsx";
import { Ended } from "./ended.tsx";
import { ProofWanted, StoppedReadings } from "./reading.tsx";
import { useSession, useUser } from "./session.ts";
import { StepUp } from "./step-up.tsx";
import { Unreached } from "./unreached.tsx";

/** Not what the server has refused, and not a proof that the person has cancelled. */
const isPassing = (error: Error) =>
  error instanceof GatehouseError && (error.code === "offline" || error.status >= 500);

/** What the pages of one logged-in person have loaded. */
const newQueries = () =>
  new QueryClient({
    defaultOptions: {
      queries: {
        retry: (failures, error) => failures === 0 && isPassing(error),
        staleTime: 10_000,
        networkMode: "always",
      },
    },
  });

interface Frames {
  /** Leads to the first page. */
  home: string;
  /** The name of the layout in the style sheet. */
  layout: "account" | "console";
  logOut: string;
  rooms: ReactNode;
  /** Above the page. */
  alarm?: ReactNode;
}

/** The frame of the pages of one logged-in person. What they have loaded and typed is gone with it. */
export function SignedIn({ home, layout, logOut, rooms, alarm }: Frames) {
  const [queries] = useState(newQueries);
  const { logout } = useSession();
  const { email } = useUser();
  const { run, isRunning, problem } = useAction(() => logout("session"));
  const beside = (
    <>
      <a className="person" href="/account">
        {email}
      </a>
      <Button kind="quiet" size="slim" isPending={isRunning} onClick={() => void run()}>
        {logOut}
      </Button>
    </>
  );
  return (
    <QueryClientProvider client={queries}>
      <StoppedReadings>
        <Frame home={home} beside={beside}>
          <div className={layout}>
            {rooms}
            <main id="content">
              {problem !== undefined && <Notice isBad>{problem.message}</Notice>}
              {alarm}
              <Unreached />
              <ProofWanted />
              <Outlet />
            </main>
          </div>
          <Attendance />
          <StepUp />
          <Ended />
        </Frame>
      </StoppedReadings>
    </QueryClientProvider>
  );
}
