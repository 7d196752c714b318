export {
  type BearerMiddleware,
  type ExpressBearerAuthOptions,
  expressBearerAuth,
  principalOfRequest as principalIn,
} from "#token-client/express-bearer-auth.ts";
