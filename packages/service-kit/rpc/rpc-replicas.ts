import { type ChannelOptions, experimental } from "@grpc/grpc-js";

export const REPLICAS_SCHEME = "replicas";

const LOOK_UP_INTERVAL_MS = 5_000;

type GrpcUri = Parameters<typeof experimental.createResolver>[0];
type Listener = experimental.ResolverListener;

/** grpc-js resolves only after a lost connection, so an added replica would get no calls. */
class ReplicaResolver implements experimental.Resolver {
  readonly #dns: experimental.Resolver;
  #timer: NodeJS.Timeout | undefined;

  constructor(target: GrpcUri, listener: Listener, options: ChannelOptions) {
    this.#dns = experimental.createResolver({ ...target, scheme: "dns" }, listener, options);
  }

  updateResolution(): void {
    this.#dns.updateResolution();
    this.#timer ??= setInterval(
      () => this.#dns.updateResolution(),
      LOOK_UP_INTERVAL_MS * (0.8 + Math.random() * 0.4),
    ).unref();
  }

  destroy(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#dns.destroy();
  }

  static getDefaultAuthority(target: GrpcUri): string {
    return target.path;
  }
}

export function registerReplicaResolver(): void {
  experimental.registerResolver(REPLICAS_SCHEME, ReplicaResolver);
}
