export {
  type BearerAuthOptions,
  fastifyBearerAuth,
  principalIn,
} from "#token-client/fastify-bearer-auth.ts";
