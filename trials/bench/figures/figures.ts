import { auditRecord } from "./audit-record.ts";
import type { Figure } from "./figure.ts";
import { install, memory, start } from "./footprint.ts";
import { forwarded, forwardedManyRoutes, forwardedManyTokens, forwardedP99 } from "./forwarded.ts";
import { introspection, login, me, refreshing } from "./identity.ts";
import { intent } from "./intent.ts";
import { refreshTransaction } from "./refresh-transaction.ts";
import { verifyToken } from "./verify-token.ts";

/** In the order in which they are measured: those that leave much data behind are the last on the common system. */
export const FIGURES: readonly Figure[] = [
  forwarded,
  forwardedManyTokens,
  forwardedManyRoutes,
  forwardedP99,
  login,
  refreshing,
  introspection,
  me,
  verifyToken,
  intent,
  auditRecord,
  refreshTransaction,
  memory,
  start,
  install,
];
