import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useSyncExternalStore } from "react";
import { Button } from "../ui/button.tsx";
import { Sheet } from "../ui/dialog.tsx";
import { textOf, useLanguage } from "../ui/text.ts";
import { useSession } from "./session.ts";

/** What is shown once stays when the session ends, until the person leaves it. @returns whether it has ended: nothing else is shown then. */
export function useShownOnce(isShown: boolean): boolean {
  const session = useSession();
  useEffect(() => (isShown ? session.showOnce() : undefined), [session, isShown]);
  return useSyncExternalStore(session.subscribe, () => session.isHeld);
}

/** Covers the pages of a person whose session has ended while they typed, until the same person has logged in again. */
export function Ended() {
  useLanguage();
  const session = useSession();
  const queries = useQueryClient();
  const isHeld = useSyncExternalStore(session.subscribe, () => session.isHeld);
  const isCovered = useSyncExternalStore(session.subscribe, () => session.isCovered);
  const leave = () => session.forget("expired");
  useEffect(() => {
    session.hasTyped = keepTyped;
    return () => {
      session.hasTyped = () => false;
    };
  }, [session]);
  useEffect(() => {
    if (!isHeld) return undefined;
    const goOn = () =>
      void session.goOn().then(
        (hasGoneOn) => void (hasGoneOn && queries.invalidateQueries()),
        // The next return to the page tries again.
        () => undefined,
      );
    // Another tab notes there that somebody has logged in.
    for (const name of NEWS) addEventListener(name, goOn);
    return () => {
      for (const name of NEWS) removeEventListener(name, goOn);
    };
  }, [session, queries, isHeld]);
  return (
    <Sheet title={textOf("ended.expired")} isOpen={isCovered} mustAnswer isOpaque onClose={leave}>
      {() => (
        <>
          <p className="muted">{textOf("ended.lead")}</p>
          <div className="buttons">
            <a className="button" href="/account/login" target="_blank" rel="noreferrer">
              {textOf("ended.logIn")}
            </a>
            <Button kind="quiet" onClick={leave}>
              {textOf("ended.leave")}
            </Button>
          </div>
        </>
      )}
    </Sheet>
  );
}

const NEWS = ["storage", "focus"] as const;

/** Passwords are not kept. @returns whether anything is. */
function keepTyped(): boolean {
  const fields = [...document.querySelectorAll<HTMLInputElement | HTMLTextAreaElement>("input, textarea")];
  for (const field of fields) if (/password/.test(field.autocomplete)) field.value = field.defaultValue;
  return fields.some(({ value, defaultValue }) => value !== defaultValue);
}
