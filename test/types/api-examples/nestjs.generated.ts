// Written by scripts/write-api.mjs from the comments in src.
import { Handles, InjectOutlast, OUTLAST, OutlastExceptionFilter, OutlastModule, handlersOf } from 'outlast/nestjs';
import { startResurrector, startWorker } from 'outlast';
import { AppModule, NestFactory, UseFilters, app, indicator } from '../stages/nestjs.ts';
import { charge, outlast } from '../stages/common.ts';

export async function example1(): Promise<unknown> {
  Handles(charge, { retry: { maxAttempts: 3 } });
  return [];
}

export async function example2(): Promise<unknown> {
  console.log(app.get(OUTLAST));
  return [];
}

export async function example3(): Promise<unknown> {
  InjectOutlast();
  return [];
}

export async function example4(): Promise<unknown> {
  OutlastModule.forRoot({
    outlast,
    services: tasks => [startWorker(outlast, { tasks }), startResurrector(outlast)],
  });
  return [];
}

export async function example5(): Promise<unknown> {
  const handlers = handlersOf(await NestFactory.createApplicationContext(AppModule));
  return [handlers];
}

export async function example6(): Promise<unknown> {
  UseFilters(OutlastExceptionFilter);
  return [];
}

export async function example7(): Promise<unknown> {
  await indicator.isHealthy('outlast');
  return [];
}
