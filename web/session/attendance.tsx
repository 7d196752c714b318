import { useEffect, useState } from "react";
import { ATTENDED_MS, Attendance as Watch } from "../ui/attended.tsx";
import { useSession } from "./session.ts";

/** A page that nobody uses does not keep a session for longer than a session lasts without use. */
export function Attendance() {
  const { tokenLifetimeMs } = useSession();
  const [attendedMs, setAttendedMs] = useState(ATTENDED_MS);
  useEffect(() => {
    let isGone = false;
    tokenLifetimeMs().then(
      (ms) => isGone || setAttendedMs(Math.min(ATTENDED_MS, 2 * ms)),
      // Of a session that has ended, or without a network.
      () => undefined,
    );
    return () => {
      isGone = true;
    };
  }, [tokenLifetimeMs]);
  return <Watch attendedMs={attendedMs} />;
}
