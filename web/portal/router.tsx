import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  Link,
  lazyRouteComponent,
  Outlet,
  redirect,
} from "@tanstack/react-router";
import type { Session } from "../session/session.ts";
import { Unreached } from "../session/unreached.tsx";
import { Frame, PageTitle } from "../ui/frame.tsx";
import { MAIL_LINKS } from "./mail-links.ts";
import { wayOf, wayOn } from "./next-page.ts";
import { LoginPage } from "./pages/login.tsx";
import { later, useText } from "./text.ts";

const root = createRootRouteWithContext<{ session: Session }>()({
  component: Outlet,
  notFoundComponent: Missing,
});

/** A page that is loaded when it is opened. */
const page = <Module extends Record<string, unknown>, Name extends keyof Module & string>(
  load: () => Promise<Module>,
  name: Name,
) => lazyRouteComponent(later(load), name);

const loggedOut = createRoute({ getParentRoute: () => root, id: "out", component: LoggedOut });
const loggedIn = createRoute({
  getParentRoute: () => root,
  id: "in",
  component: page(() => import("./logged-in.tsx"), "LoggedIn"),
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
  component: page(() => import("./pages/register.tsx"), "RegisterPage"),
});
const forgotPassword = createRoute({
  getParentRoute: () => loggedOut,
  path: "/forgot-password",
  validateSearch: wayOf,
  component: page(() => import("./pages/forgot-password.tsx"), "ForgotPasswordPage"),
});
const returned = createRoute({
  getParentRoute: () => loggedOut,
  path: "/returned",
  component: page(() => import("./pages/returned.tsx"), "ReturnedPage"),
});
const mailLinks = MAIL_LINKS.map((path) =>
  createRoute({
    getParentRoute: () => loggedOut,
    path: `/${path}`,
    component: page(() => import("./pages/mail-link.tsx"), "MailLinkPage"),
  }),
);

const profile = createRoute({
  getParentRoute: () => loggedIn,
  path: "/",
  component: page(() => import("./pages/profile.tsx"), "ProfilePage"),
});
const security = createRoute({
  getParentRoute: () => loggedIn,
  path: "/security",
  component: page(() => import("./pages/security.tsx"), "SecurityPage"),
});
const sessions = createRoute({
  getParentRoute: () => loggedIn,
  path: "/sessions",
  component: page(() => import("./pages/sessions.tsx"), "SessionsPage"),
});
const providers = createRoute({
  getParentRoute: () => loggedIn,
  path: "/providers",
  component: page(() => import("./pages/providers.tsx"), "ProvidersPage"),
});

const approvals = createRoute({
  getParentRoute: () => loggedIn,
  path: "/approvals",
  component: page(() => import("./pages/approvals.tsx"), "ApprovalsPage"),
});
const approval = createRoute({
  getParentRoute: () => loggedIn,
  path: "/approvals/$id",
  validateSearch: wayOf,
  component: page(() => import("./pages/approval.tsx"), "ApprovalPage"),
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

function LoggedOut() {
  return (
    <Frame home="/account">
      <main id="content" className="alone">
        <Unreached />
        <Outlet />
      </main>
    </Frame>
  );
}

function Missing() {
  const t = useText();
  return (
    <Frame home="/account">
      <main id="content" className="alone">
        <PageTitle lead={t("states.missingText")}>{t("states.missing")}</PageTitle>
        <Link to="/" className="button">
          {t("account.profile")}
        </Link>
      </main>
    </Frame>
  );
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof createPortalRouter>;
  }
  interface HistoryState {
    email?: string;
  }
}
