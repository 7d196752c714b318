export {
  type BearerMiddleware,
  type ExpressBearerAuthOptions,
  expressBearerAuth,
} from "#token-client/express-bearer-auth.ts";
export { principalOfRequest as principalIn } from "#token-client/request-principal.ts";
