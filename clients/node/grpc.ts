export {
  principalInMetadata,
  type RpcBearerAuthOptions,
  rpcBearerAuth,
} from "#token-client/rpc-bearer-auth.ts";
