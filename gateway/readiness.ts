/**
 * A readiness check that holds for good once it was passed. What a process has to learn before it can serve is a reason to
 * send its calls elsewhere; a service that all replicas need is none: they would be unready together, and nobody would be
 * left to answer. Their calls say 503 by themselves.
 */
export function oncePassed(check: () => void): () => void {
  let hasPassed = false;
  return () => {
    if (hasPassed) return;
    check();
    hasPassed = true;
  };
}
