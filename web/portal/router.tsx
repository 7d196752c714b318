import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
} from "@tanstack/react-router";
import type { Session } from "../session/session.ts";
import { LoggedOut, Missing } from "./layout.tsx";
import { MAIL_LINKS } from "./mail-links.ts";
import { wayOf, wayOn } from "./next-page.ts";
import { LoginPage } from "./pages/login.tsx";
import { later } from "./text.ts";

const root = createRootRouteWithContext<{ session: Session }>()({
  component: Outlet,
  notFoundComponent: Missing,
});

const loggedOut = createRoute({ getParentRoute: () => root, id: "out", component: LoggedOut });
const loggedIn = createRoute({
  getParentRoute: () => root,
  id: "in",
  component: lazyRouteComponent(
    later(() => import("./logged-in.tsx")),
    "LoggedIn",
  ),
  beforeLoad: ({ context: { session }, location }) => {
    if (session.account !== undefined) return;
    throw redirect({ to: "/login", search: wayOf({ ...location.search, next: location.pathname }) });
  },
});

const login = createRoute({
  getParentRoute: () => loggedOut,
  path: "/login",
  validateSearch: wayOf,
  beforeLoad: async ({ context: { session }, search }) => {
    if (session.account !== undefined) throw redirect(await wayOn(search));
  },
  component: LoginPage,
});
const register = createRoute({
  getParentRoute: () => loggedOut,
  path: "/register",
  validateSearch: wayOf,
  component: lazyRouteComponent(
    later(() => import("./pages/register.tsx")),
    "RegisterPage",
  ),
});
const forgotPassword = createRoute({
  getParentRoute: () => loggedOut,
  path: "/forgot-password",
  validateSearch: wayOf,
  component: lazyRouteComponent(
    later(() => import("./pages/forgot-password.tsx")),
    "ForgotPasswordPage",
  ),
});
const returned = createRoute({
  getParentRoute: () => loggedOut,
  path: "/returned",
  component: lazyRouteComponent(
    later(() => import("./pages/returned.tsx")),
    "ReturnedPage",
  ),
});
const mailLinks = MAIL_LINKS.map((path) =>
  createRoute({
    getParentRoute: () => loggedOut,
    path: `/${path}`,
    component: lazyRouteComponent(
      later(() => import("./pages/mail-link.tsx")),
      "MailLinkPage",
    ),
  }),
);

const profile = createRoute({
  getParentRoute: () => loggedIn,
  path: "/",
  component: lazyRouteComponent(
    later(() => import("./pages/profile.tsx")),
    "ProfilePage",
  ),
});
const security = createRoute({
  getParentRoute: () => loggedIn,
  path: "/security",
  component: lazyRouteComponent(
    later(() => import("./pages/security.tsx")),
    "SecurityPage",
  ),
});
const sessions = createRoute({
  getParentRoute: () => loggedIn,
  path: "/sessions",
  component: lazyRouteComponent(
    later(() => import("./pages/sessions.tsx")),
    "SessionsPage",
  ),
});
const providers = createRoute({
  getParentRoute: () => loggedIn,
  path: "/providers",
  component: lazyRouteComponent(
    later(() => import("./pages/providers.tsx")),
    "ProvidersPage",
  ),
});

const approvals = createRoute({
  getParentRoute: () => loggedIn,
  path: "/approvals",
  component: lazyRouteComponent(
    later(() => import("./pages/approvals.tsx")),
    "ApprovalsPage",
  ),
});
const approval = createRoute({
  getParentRoute: () => loggedIn,
  path: "/approvals/$id",
  validateSearch: wayOf,
  component: lazyRouteComponent(
    later(() => import("./pages/approval.tsx")),
    "ApprovalPage",
  ),
});

const tree = root.addChildren([
  loggedOut.addChildren([login, register, forgotPassword, returned, ...mailLinks]),
  loggedIn.addChildren([profile, security, sessions, providers, approvals, approval]),
]);

export function createPortalRouter(session: Session) {
  const router = createRouter({
    routeTree: tree,
    basepath: "/account",
    context: { session },
    // What a page throws reaches the Mishap around the router.
    disableGlobalCatchBoundary: true,
    defaultPreload: "intent",
    trailingSlash: "never",
  });
  // After a logout, also in another tab, the guard of the present page decides again.
  session.subscribe(() => void router.invalidate());
  return router;
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof createPortalRouter>;
  }
  interface HistoryState {
    email?: string;
  }
}
