import type { Figure } from "./figure.ts";
import { forwarded, forwardedManyRoutes, forwardedManyTokens } from "./forwarded.ts";
import { introspection, login, me, refreshing } from "./identity.ts";

/** In the order in which they are measured. */
export const FIGURES: readonly Figure[] = [
  forwarded,
  forwardedManyTokens,
  forwardedManyRoutes,
  login,
  refreshing,
  introspection,
  me,
];
