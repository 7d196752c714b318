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
