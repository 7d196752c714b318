/**
 * What is used of NestJS, which is no dependency of the repository. `npm run conformance` and the trial `languages` use the real one.
 */
declare module "@nestjs/common" {
  export class HttpException extends Error {
    constructor(body: object, status: number, options: { cause: unknown });
  }
  export function createParamDecorator(
    factory: (data: unknown, context: import("./nestjs.ts").GuardedContext) => unknown,
  ): () => ParameterDecorator;
  export function Controller(): (target: object) => void;
  export function Get(path: string): (target: object, name: string, method: PropertyDescriptor) => void;
  export function Module(parts: { controllers: readonly object[] }): (target: object) => void;
}

declare module "@nestjs/core" {
  interface Application {
    useGlobalGuards(guard: object): void;
    listen(port: number, host: string): Promise<unknown>;
    getUrl(): Promise<string>;
  }
  export const NestFactory: {
    create(module: object, adapter: object, options: { logger: false }): Promise<Application>;
  };
}

declare module "@nestjs/platform-express" {
  export class ExpressAdapter {}
}

declare module "@nestjs/platform-fastify" {
  export class FastifyAdapter {}
}
