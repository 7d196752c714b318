import type { AccessTable } from "#access-file/access-rules.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { UpstreamRoute } from "#routes-file/routes-file.ts";
import { unknownNames } from "#routes-file/unknown-names.ts";
import type { ProxyTable } from "./proxy-table.ts";

interface CheckedTables {
  proxies: Pick<ProxyTable, "replace">;
  access: Pick<AccessTable, "replace">;
}

/** Warns of names in the routes file that the access file does not have: now, and when either file has changed. */
export function checkNames(
  routes: readonly UpstreamRoute[],
  { proxies, access, logger }: { proxies: ProxyTable; access: AccessTable; logger: Logger },
): CheckedTables {
  let current = routes;
  const warn = () => {
    const problems = unknownNames(current, access);
    if (problems.length > 0)
      logger.warn({ problems }, "routes name permissions or roles that the access file does not have");
  };
  warn();
  return {
    proxies: {
      replace(changed) {
        proxies.replace(changed);
        current = changed;
        warn();
      },
    },
    access: {
      replace(changed) {
        access.replace(changed);
        warn();
      },
    },
  };
}

/** Forwarded routes have origins of their own, which is easily overlooked. */
export function hintAtOrigins(
  allowed: ReadonlySet<string>,
  routes: readonly Pick<UpstreamRoute, "allowedOrigins">[],
  logger: Pick<Logger, "warn">,
): void {
  const onRoutes = new Set(routes.flatMap(({ allowedOrigins }) => allowedOrigins));
  if (routes.length === 0 || onRoutes.has("*")) return;
  const origins = [...allowed].filter((origin) => !onRoutes.has(origin));
  if (origins.length === 0) return;
  logger.warn(
    { origins },
    "origins of ALLOWED_ORIGINS may call no forwarded route: `gatehouse routes add --origin`, or allowedOrigins in the routes file",
  );
}
