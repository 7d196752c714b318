import { type ButtonHTMLAttributes, useEffect, useState } from "react";
import { textOf } from "./text.ts";

interface Props extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, "className"> {
  kind?: "main" | "quiet" | "danger";
  size?: "normal" | "slim" | "wide";
  /** Keeps the focus, and does nothing until it is over. What takes long is said beside it. */
  isPending?: boolean;
}

const LONG_MS = 3_000;

export function Button({ kind = "main", size = "normal", isPending = false, onClick, ...props }: Props) {
  const [isLong, setLong] = useState(false);
  useEffect(() => {
    if (!isPending) return;
    const timer = setTimeout(setLong, LONG_MS, true);
    return () => {
      clearTimeout(timer);
      setLong(false);
    };
  }, [isPending]);
  return (
    <>
      <button
        type="button"
        {...props}
        {...(isPending ? { "aria-disabled": true, "aria-busy": true } : { onClick })}
        className={`button ${kind} ${size}`}
      />
      {isLong && (
        <span role="status" className="muted small">
          {textOf("states.working")}
        </span>
      )}
    </>
  );
}
