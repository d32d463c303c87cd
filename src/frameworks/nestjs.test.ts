import { Injectable, Module, Scope, type INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { describe, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { createOutlast } from '../app/create-outlast.ts';
import { task } from '../task/index.ts';
import { Handles, handlersOf, OUTLAST, OutlastHealthIndicator, OutlastModule } from './nestjs.ts';

const charge = task('nest.charge', { input: z.string(), result: z.string() });

class Charging {
  readonly name: string = 'base';
  charge(order: string): string {
    return `${this.name} ${order}`;
  }
}

/** As a decorator would, which the runner of the tests does not compile. */
function handles(prototype: Charging): void {
  const descriptor = Object.getOwnPropertyDescriptor(prototype, 'charge');
  Handles(charge)(prototype, 'charge', descriptor as TypedPropertyDescriptor<Charging['charge']>);
}
handles(Charging.prototype);

class OwnCharging extends Charging {
  override readonly name: string = 'own';
}

async function open(provider: new () => object): Promise<INestApplicationContext> {
  const outlast = createOutlast({ database: 'postgres://127.0.0.1:1/none' });
  class App {
    readonly name = 'app';
  }
  Module({ imports: [OutlastModule.forRoot({ outlast })], providers: [provider] })(App);
  const app = await NestFactory.createApplicationContext(App, {
    logger: false,
    abortOnError: false,
  });
  onTestFinished(() => app.close());
  return app;
}

describe('a Nest application', () => {
  it('runs a task by the method of a provider, also one that it inherits, with its instance', async () => {
    Injectable()(OwnCharging);
    const app = await open(OwnCharging);
    const [handler, ...others] = handlersOf(app);
    expect(others).toEqual([]);
    expect(handler?.task).toBe(charge);
    expect(await handler?.run('17', {} as never)).toBe('own 17');
    expect(app.get(OUTLAST)).toMatchObject({ handler: expect.any(Function) as unknown });
  });

  it('refuses a handler whose provider is made for each request', async () => {
    class Scoped extends Charging {}
    Injectable({ scope: Scope.REQUEST })(Scoped);
    const app = await open(Scoped);
    expect(() => handlersOf(app)).toThrow('made anew for each request');
  });

  it('is unhealthy when its store does not answer, and says no more than a code', async () => {
    const app = await open(OwnCharging);
    const health = await app.get(OutlastHealthIndicator).isHealthy('queue');
    expect(health).toEqual({ queue: { status: 'down', error: 'ERR_STORE_UNAVAILABLE' } });
  });
});
