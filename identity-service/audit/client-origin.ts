/** Where a client's call came from. Empty texts if unknown. */
export interface ClientOrigin {
  clientIp: string;
  userAgent: string;
}

export const NO_ORIGIN: ClientOrigin = { clientIp: "", userAgent: "" };

const MAX_IP_CHARACTERS = 45;
const MAX_USER_AGENT_CHARACTERS = 512;

/** Fits the columns. PostgreSQL refuses NUL and lone surrogates. */
export function storableOrigin({ clientIp, userAgent }: ClientOrigin): ClientOrigin {
  return {
    clientIp: clientIp.slice(0, MAX_IP_CHARACTERS),
    userAgent: userAgent.replaceAll("\0", "").slice(0, MAX_USER_AGENT_CHARACTERS).toWellFormed(),
  };
}
