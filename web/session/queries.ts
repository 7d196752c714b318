import { QueryClient } from "@tanstack/react-query";
import { GatehouseError } from "#clients/browser/gateway-calls.ts";

/** Not what the server has refused, and not a proof that the person has cancelled. */
const isPassing = (error: Error) =>
  error instanceof GatehouseError && (error.code === "offline" || error.status >= 500);

/** What the pages of one logged-in person have loaded. */
export const newQueries = () =>
  new QueryClient({
    defaultOptions: {
      queries: {
        retry: (failures, error) => failures === 0 && isPassing(error),
        staleTime: 10_000,
        networkMode: "always",
      },
    },
  });
