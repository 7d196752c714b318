import { deviceOf } from "../ui/format.ts";
import { useText } from "./text.ts";

/** "Firefox on Linux". */
export function useDeviceText(): (userAgent: string) => string {
  const t = useText();
  return (userAgent) => {
    const { browser, system } = deviceOf(userAgent);
    if (browser === "") return t("sessions.unknown");
    return system === "" ? browser : t("sessions.device", { browser, system });
  };
}
