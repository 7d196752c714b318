import encodeQR from "qr";
import { useMemo } from "react";
import { Button } from "../ui/button.tsx";
import { useCopy } from "../ui/save.ts";
import { useText } from "./text.ts";

export interface TotpSetUp {
  /** Base32. */
  secret: string;
  otpauthUrl: string;
}

/** As a picture for an app on another device, as a link for one on this device, and as text. */
export function TotpSecret({ setUp: { secret, otpauthUrl } }: { setUp: TotpSetUp }) {
  const t = useText();
  const [outcome, copy] = useCopy(secret);
  const { path, size } = useMemo(() => drawn(otpauthUrl), [otpauthUrl]);
  return (
    <div className="stack">
      <p>{t("totp.scan")}</p>
      <svg
        className="qr"
        viewBox={`0 0 ${size} ${size}`}
        role="img"
        aria-label={t("totp.qr")}
        shapeRendering="crispEdges"
      >
        <path d={path} />
      </svg>
      <p className="small muted">
        {t("totp.manual")} <span className="key">{secret.replaceAll(/(.{4})(?=.)/g, "$1 ")}</span>
      </p>
      <div className="buttons">
        <Button kind="quiet" size="slim" onClick={copy}>
          {t(outcome ?? "totp.copy")}
        </Button>
        <a className="button quiet slim" href={otpauthUrl}>
          {t("totp.open")}
        </a>
      </div>
    </div>
  );
}

function drawn(text: string): { path: string; size: number } {
  const rows = encodeQR(text, "raw", { border: 1 });
  const squares = rows.flatMap((row, y) => row.map((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : "")));
  return { path: squares.join(""), size: rows.length };
}
