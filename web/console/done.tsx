import { createContext, type ReactNode, useContext, useState } from "react";
import { Notice } from "../ui/notice.tsx";
import type { Values } from "../ui/text.ts";
import { type TextKey, useText } from "./text.ts";

type Say = (key: TextKey, values?: Values) => void;

const Done = createContext<Say>(() => undefined);

/** Says above the page what an act has done. */
export function DoneArea({ children }: { children: ReactNode }) {
  const t = useText();
  const [said, setSaid] = useState<Parameters<Say>>();
  return (
    <Done value={(...text) => setSaid(text)}>
      <div className="done" role="status">
        {said !== undefined && <Notice>{t(...said)}</Notice>}
      </div>
      {children}
    </Done>
  );
}

export const useDone = () => useContext(Done);
