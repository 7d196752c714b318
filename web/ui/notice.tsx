import type { ReactNode } from "react";
import { textOf } from "./text.ts";

/** Said at once by screen readers: `alert` if it is bad. */
export function Notice({ isBad = false, children }: { isBad?: boolean; children: ReactNode }) {
  return (
    <div role={isBad ? "alert" : "status"} className={isBad ? "notice bad" : "notice"}>
      {children}
    </div>
  );
}

export function Loading() {
  return (
    <div className="state" role="status">
      <span className="hidden">{textOf("states.loading")}</span>
      <div className="ghost" aria-hidden="true">
        <span />
        <span />
      </div>
    </div>
  );
}
