/** `import` of it would also load undici, which makes 40 ms of every process's start, for exports that nobody uses. */
export const http = process.getBuiltinModule("node:http");
