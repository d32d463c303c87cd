import { UseFilters as useFilters, type INestApplicationContext } from '@nestjs/common';
import { NestFactory as nestFactory } from '@nestjs/core';
import type { OutlastHealthIndicator } from 'outlast/nestjs';

export const UseFilters = useFilters;
export const NestFactory = nestFactory;
export const AppModule = class {
  readonly name = 'app';
};
export declare const app: INestApplicationContext;
export declare const indicator: OutlastHealthIndicator;
