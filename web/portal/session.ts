import { createContext, useContext, useSyncExternalStore } from "react";
import type { StepUpDemand, User } from "../../examples/typescript-client/generated/gatehouse.ts";
import { ApiError, callApi } from "../ui/api.ts";
import type { SessionClient } from "./client.ts";

export interface Account {
  user: User;
  /** Only with a second factor. */
  recoveryCodesLeft?: number;
}

/** A call waits for it. */
export interface StepUpRequest {
  demand: Pick<StepUpDemand, "acr">;
  proven(): void;
  cancel(): void;
}

/** Who is logged in, and the calls with their rights. */
export class Session {
  readonly client: SessionClient;
  #account: Account | undefined;
  #stepUp: StepUpRequest | undefined;
  readonly #listeners = new Set<() => void>();

  constructor(client: SessionClient) {
    this.client = client;
    client.onSessionEnd(() => this.#set(undefined));
  }

  get account(): Account | undefined {
    return this.#account;
  }

  readonly subscribe = (changed: () => void): (() => void) => {
    this.#listeners.add(changed);
    return () => this.#listeners.delete(changed);
  };

  get stepUp(): StepUpRequest | undefined {
    return this.#stepUp;
  }

  /** Asks the person for a proof if the call demands one. @throws {ApiError} `wrong_password`, `cancelled` and those of the API. */
  readonly call = async <T>(method: string, path: string, body?: object): Promise<T> => {
    const send = () => callApi<T>((url, init) => this.client.fetch(url, init), method, path, body);
    return send()
      .catch(async (error: unknown) => {
        if (!(error instanceof ApiError) || error.code !== "step_up_required") throw error;
        await this.#prove(error.details as StepUpDemand);
        return send();
      })
      .catch((error: unknown) => {
        const isPassword = error instanceof ApiError && error.code === "invalid_credentials";
        throw isPassword ? new ApiError(error.status, "wrong_password", error) : error;
      });
  };

  async #prove(demand: StepUpDemand): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#stepUp?.cancel();
    this.#stepUp = { demand, proven: resolve, cancel: () => reject(new ApiError(0, "cancelled", {})) };
    this.#changed();
    await promise.finally(() => {
      this.#stepUp = undefined;
      this.#changed();
    });
  }

  /** Reads the account again. @throws {ApiError} */
  readonly load = async (): Promise<void> => this.#set(await this.call<Account>("GET", "/auth/me"));

  /** After the account was deleted: its sessions are gone. */
  readonly forget = (): void => this.#set(undefined);

  async resume(): Promise<void> {
    if (await this.client.resume()) await this.load();
  }

  #set(account: Account | undefined): void {
    this.#account = account;
    if (account === undefined) this.#stepUp?.cancel();
    this.#changed();
  }

  #changed(): void {
    for (const changed of this.#listeners) changed();
  }
}

export const SessionContext = createContext<Session | undefined>(undefined);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === undefined) throw new Error("rendered outside of the portal");
  return session;
}

/** Undefined when logged out. */
export function useAccount(): Account | undefined {
  const session = useSession();
  return useSyncExternalStore(session.subscribe, () => session.account);
}

/** On pages that only a logged-in person sees. */
export function useUser(): User {
  const account = useAccount();
  if (account === undefined) throw new Error("rendered without a session");
  return account.user;
}
