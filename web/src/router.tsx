import type { QueryClient } from "@tanstack/react-query";
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  type RouterHistory,
  redirect,
} from "@tanstack/react-router";
import { meQuery } from "./api/me";
import { isProblem } from "./api/problem";
import { Crash, NotFound } from "./routes/errors";
import { Layout } from "./routes/layout";
import { OverviewPage } from "./routes/overview";
import * as search from "./routes/search";
import { SignInPage } from "./routes/sign-in";

const rootRoute = createRootRouteWithContext<{ queries: QueryClient }>()({
  notFoundComponent: NotFound,
});

const signInRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/sign-in",
  validateSearch: search.signIn,
  component: SignInPage,
});

/** Everything that needs somebody signed in. */
const layoutRoute = createRoute({
  getParentRoute: () => rootRoute,
  id: "signed-in",
  component: Layout,
  beforeLoad: async ({ context, location }) => {
    try {
      await context.queries.ensureQueryData(meQuery);
    } catch (error) {
      if (isProblem(error, 401)) throw redirect({ to: "/sign-in", search: { next: location.href } });
      throw error;
    }
  },
  errorComponent: Crash,
});

const parent = () => layoutRoute;

const overviewRoute = createRoute({ getParentRoute: parent, path: "/", component: OverviewPage });
const clustersRoute = createRoute({
  getParentRoute: parent,
  path: "/clusters",
  validateSearch: search.clusters,
  component: lazyRouteComponent(() => import("./routes/clusters"), "ClustersPage"),
});
const clusterRoute = createRoute({
  getParentRoute: parent,
  path: "/clusters/$id",
  validateSearch: search.cluster,
  component: lazyRouteComponent(() => import("./routes/cluster"), "ClusterPage"),
});
const workloadsRoute = createRoute({
  getParentRoute: parent,
  path: "/workloads",
  validateSearch: search.workloads,
  component: lazyRouteComponent(() => import("./routes/workloads"), "WorkloadsPage"),
});
const workloadRoute = createRoute({
  getParentRoute: parent,
  path: "/workloads/$id",
  validateSearch: search.workload,
  component: lazyRouteComponent(() => import("./routes/workload"), "WorkloadPage"),
});
const servicesRoute = createRoute({
  getParentRoute: parent,
  path: "/services",
  component: lazyRouteComponent(() => import("./routes/services"), "ServicesPage"),
});
const serviceRoute = createRoute({
  getParentRoute: parent,
  path: "/services/$id",
  component: lazyRouteComponent(() => import("./routes/service"), "ServicePage"),
});
const decisionsRoute = createRoute({
  getParentRoute: parent,
  path: "/decisions",
  validateSearch: search.decisions,
  component: lazyRouteComponent(() => import("./routes/decisions"), "DecisionsPage"),
});
const decisionRoute = createRoute({
  getParentRoute: parent,
  path: "/decisions/$id",
  component: lazyRouteComponent(() => import("./routes/decision"), "DecisionPage"),
});
const approvalsRoute = createRoute({
  getParentRoute: parent,
  path: "/approvals",
  component: lazyRouteComponent(() => import("./routes/approvals"), "ApprovalsPage"),
});
const replayRoute = createRoute({
  getParentRoute: parent,
  path: "/replay",
  validateSearch: search.replay,
  component: lazyRouteComponent(() => import("./routes/replay"), "ReplayPage"),
});
const costRoute = createRoute({
  getParentRoute: parent,
  path: "/cost",
  validateSearch: search.cost,
  component: lazyRouteComponent(() => import("./routes/cost"), "CostPage"),
});
const savingsRoute = createRoute({
  getParentRoute: parent,
  path: "/savings",
  validateSearch: search.savings,
  component: lazyRouteComponent(() => import("./routes/savings"), "SavingsPage"),
});
const unitsRoute = createRoute({
  getParentRoute: parent,
  path: "/units",
  validateSearch: search.units,
  component: lazyRouteComponent(() => import("./routes/units"), "UnitsPage"),
});
const statementsRoute = createRoute({
  getParentRoute: parent,
  path: "/statements",
  validateSearch: search.statements,
  component: lazyRouteComponent(() => import("./routes/statements"), "StatementsPage"),
});
const budgetsRoute = createRoute({
  getParentRoute: parent,
  path: "/budgets",
  component: lazyRouteComponent(() => import("./routes/budgets"), "BudgetsPage"),
});
const reconciliationRoute = createRoute({
  getParentRoute: parent,
  path: "/reconciliation",
  validateSearch: search.reconciliation,
  component: lazyRouteComponent(() => import("./routes/reconciliation"), "ReconciliationPage"),
});
const anomaliesRoute = createRoute({
  getParentRoute: parent,
  path: "/anomalies",
  validateSearch: search.anomalies,
  component: lazyRouteComponent(() => import("./routes/anomalies"), "AnomaliesPage"),
});
const webhooksRoute = createRoute({
  getParentRoute: parent,
  path: "/webhooks",
  validateSearch: search.webhooks,
  component: lazyRouteComponent(() => import("./routes/webhooks"), "WebhooksPage"),
});
const alertsRoute = createRoute({
  getParentRoute: parent,
  path: "/alerts",
  validateSearch: search.alerts,
  component: lazyRouteComponent(() => import("./routes/alerts"), "AlertsPage"),
});
const spotRoute = createRoute({
  getParentRoute: parent,
  path: "/spot",
  validateSearch: search.spot,
  component: lazyRouteComponent(() => import("./routes/spot"), "SpotPage"),
});
const availabilityRoute = createRoute({
  getParentRoute: parent,
  path: "/availability",
  validateSearch: search.availability,
  component: lazyRouteComponent(() => import("./routes/availability"), "AvailabilityPage"),
});
const commitmentsRoute = createRoute({
  getParentRoute: parent,
  path: "/commitments",
  validateSearch: search.commitments,
  component: lazyRouteComponent(() => import("./routes/commitments"), "CommitmentsPage"),
});
const catalogueRoute = createRoute({
  getParentRoute: parent,
  path: "/catalogue",
  validateSearch: search.catalogue,
  component: lazyRouteComponent(() => import("./routes/catalogue"), "CataloguePage"),
});
const accountsRoute = createRoute({
  getParentRoute: parent,
  path: "/cloud-accounts",
  component: lazyRouteComponent(() => import("./routes/cloud-accounts"), "CloudAccountsPage"),
});
const settingsRoute = createRoute({
  getParentRoute: parent,
  path: "/settings",
  validateSearch: search.settings,
  component: lazyRouteComponent(() => import("./routes/settings"), "SettingsPage"),
});

const routeTree = rootRoute.addChildren([
  signInRoute,
  layoutRoute.addChildren([
    overviewRoute,
    clustersRoute,
    clusterRoute,
    workloadsRoute,
    workloadRoute,
    servicesRoute,
    serviceRoute,
    decisionsRoute,
    decisionRoute,
    approvalsRoute,
    replayRoute,
    costRoute,
    savingsRoute,
    unitsRoute,
    statementsRoute,
    budgetsRoute,
    anomaliesRoute,
    reconciliationRoute,
    webhooksRoute,
    alertsRoute,
    spotRoute,
    availabilityRoute,
    commitmentsRoute,
    catalogueRoute,
    accountsRoute,
    settingsRoute,
  ]),
]);

export function makeRouter(queries: QueryClient, history?: RouterHistory) {
  return createRouter({
    routeTree,
    context: { queries },
    history,
    defaultPreload: "intent",
    defaultPreloadStaleTime: 0,
    defaultErrorComponent: Crash,
    scrollRestoration: true,
  });
}

export type PlimsollRouter = ReturnType<typeof makeRouter>;

declare module "@tanstack/react-router" {
  interface Register {
    router: PlimsollRouter;
  }
}
