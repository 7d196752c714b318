import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  notFound,
  redirect,
} from "@tanstack/react-router";
import { may, type Session } from "../session/session.ts";
import { readSearch } from "./audit/audit-search.ts";
import { Missing, Nothing, ROOMS, Shell } from "./shell.tsx";
import type { Wanted } from "./users/users-page.tsx";

const root = createRootRouteWithContext<{ session: Session }>()({
  component: Shell,
  notFoundComponent: Missing,
  beforeLoad: ({ context: { session }, location }) => {
    const { account } = session;
    if (account === undefined) throw redirect({ href: loginFor(location.pathname), reloadDocument: true });
    // The first page says that nothing is here for the role.
    const isOpen = ROOMS.some(({ permission }) => may(account, permission));
    if (!isOpen && location.pathname !== "/") throw redirect({ to: "/" });
  },
});

/** The portal's login, which leads back. Filters in the address stay behind: they may name people. */
const loginFor = (path: string) =>
  `/account/login?next=${encodeURIComponent(`/console${path === "/" ? "" : path}`)}`;

const home = createRoute({
  getParentRoute: () => root,
  path: "/",
  component: Nothing,
  beforeLoad: ({ context: { session } }) => {
    const { account } = session;
    const first = account && ROOMS.find(({ permission }) => may(account, permission));
    if (first !== undefined) throw redirect({ to: first.path });
  },
});

/** From the address. Anything else would reach other paths of the API. */
const parsedId = {
  parse: ({ id }: { id: string }) => {
    if (!UUID.test(id)) throw notFound();
    return { id: id.toLowerCase() };
  },
};
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

const overview = createRoute({
  getParentRoute: () => root,
  path: "/overview",
  component: lazyRouteComponent(() => import("./overview/overview-page.tsx"), "OverviewPage"),
});
const audit = createRoute({
  getParentRoute: () => root,
  path: "/audit",
  validateSearch: readSearch,
  component: lazyRouteComponent(() => import("./audit/audit-page.tsx"), "AuditPage"),
});
const entry = createRoute({
  getParentRoute: () => root,
  path: "/audit/$id",
  params: parsedId,
  component: lazyRouteComponent(() => import("./audit/entry-page.tsx"), "EntryPage"),
});

const users = createRoute({
  getParentRoute: () => root,
  path: "/users",
  component: lazyRouteComponent(() => import("./users/users-page.tsx"), "UsersPage"),
});
const user = createRoute({
  getParentRoute: () => root,
  path: "/users/$id",
  params: parsedId,
  component: lazyRouteComponent(() => import("./users/user-page.tsx"), "UserPage"),
});
const clients = createRoute({
  getParentRoute: () => root,
  path: "/clients",
  component: lazyRouteComponent(() => import("./clients/clients-page.tsx"), "ClientsPage"),
});
const newClient = createRoute({
  getParentRoute: () => root,
  path: "/clients/new",
  component: lazyRouteComponent(() => import("./clients/new-client-page.tsx"), "NewClientPage"),
});
const client = createRoute({
  getParentRoute: () => root,
  path: "/clients/$id",
  params: parsedId,
  component: lazyRouteComponent(() => import("./clients/client-page.tsx"), "ClientPage"),
});
/** Without it the page is not there: nothing is asked that would be refused. */
const only =
  (permission: string) =>
  ({ context: { session } }: { context: { session: Session } }) => {
    if (session.account !== undefined && !may(session.account, permission)) throw notFound();
  };
const webhooks = createRoute({
  getParentRoute: () => root,
  path: "/webhooks",
  beforeLoad: only("webhooks:read"),
  component: lazyRouteComponent(() => import("./webhooks/webhooks-page.tsx"), "WebhooksPage"),
});
const newWebhook = createRoute({
  getParentRoute: () => root,
  path: "/webhooks/new",
  beforeLoad: only("webhooks:write"),
  component: lazyRouteComponent(() => import("./webhooks/new-webhook-page.tsx"), "NewWebhookPage"),
});
const webhook = createRoute({
  getParentRoute: () => root,
  path: "/webhooks/$id",
  params: parsedId,
  beforeLoad: only("webhooks:read"),
  component: lazyRouteComponent(() => import("./webhooks/webhook-page.tsx"), "WebhookPage"),
});
const roles = createRoute({
  getParentRoute: () => root,
  path: "/roles",
  component: lazyRouteComponent(() => import("./roles/roles-page.tsx"), "RolesPage"),
});
const system = createRoute({
  getParentRoute: () => root,
  path: "/system",
  component: lazyRouteComponent(() => import("./system/system-page.tsx"), "SystemPage"),
});

const tree = root.addChildren([
  home,
  overview,
  audit,
  entry,
  users,
  user,
  clients,
  newClient,
  client,
  webhooks,
  newWebhook,
  webhook,
  roles,
  system,
]);

export function createConsoleRouter(session: Session) {
  const router = createRouter({
    routeTree: tree,
    basepath: "/console",
    context: { session },
    // What a page throws reaches the Mishap around the router.
    disableGlobalCatchBoundary: true,
    defaultPreload: false,
    trailingSlash: "never",
  });
  // After a logout, also in another tab, the guard decides again.
  session.subscribe(() => void router.invalidate());
  return router;
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof createConsoleRouter>;
  }
  interface HistoryState {
    /** Of the list of users. */
    wanted?: Wanted;
    /** Of the search in the audit log: ids of the addresses that were entered. */
    idsOf?: Readonly<Record<string, string>>;
  }
}
