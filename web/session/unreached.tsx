import { type RouteComponent, useRouter } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { Notice } from "../ui/notice.tsx";
import { textOf, useLanguage } from "../ui/text.ts";

const DEADLINE_MS = 5_000;

/** While the server cannot be reached, the person stays on the present page, with all that was typed, if the next one is not loaded. */
export function Unreached() {
  useLanguage();
  const router = useRouter();
  const [isAway, setAway] = useState(false);
  useEffect(() => {
    let latest: object;
    return router.history.block({
      enableBeforeUnload: false,
      blockerFn: async ({ nextLocation, action }) => {
        const own = {};
        latest = own;
        const [routes] = router.getMatchedRoutes(router.parseLocation(nextLocation).pathname);
        const isOut = await isOutOfReach(routes.map(({ options }) => options.component));
        // The person has chosen another page meanwhile. What the browser itself has left cannot be undone any more.
        if (own !== latest) return action === "PUSH" || action === "REPLACE";
        setAway(isOut);
        return isOut;
      },
    });
  }, [router]);
  return isAway && <Notice isBad>{textOf("errors.offline")}</Notice>;
}

/** A file that is missing although the server answers belongs to an older release: the router loads the document again. */
async function isOutOfReach(parts: readonly (RouteComponent | undefined)[]) {
  await Promise.all(parts.map((part) => part?.preload?.()));
  // Whatever is loaded has nothing to load any more.
  if (parts.every((part) => part?.preload === undefined)) return false;
  const signal = AbortSignal.timeout(DEADLINE_MS);
  return fetch("", { method: "HEAD", signal }).then(
    ({ ok }) => !ok,
    () => true,
  );
}
