import type { ButtonHTMLAttributes } from "react";

interface Props extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, "className"> {
  kind?: "main" | "quiet" | "danger";
  size?: "normal" | "slim" | "wide";
  /** Keeps the focus, and does nothing until it is over. */
  isPending?: boolean;
}

export function Button({ kind = "main", size = "normal", isPending = false, onClick, ...props }: Props) {
  return (
    <button
      type="button"
      {...props}
      {...(isPending ? { "aria-disabled": true } : { onClick })}
      className={`button ${kind} ${size}`}
    />
  );
}
