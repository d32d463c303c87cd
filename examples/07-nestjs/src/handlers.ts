// src/handlers.ts: for `outlast worker`, instead of `services`; name it in `tasks` of outlast.config.mjs
import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { handlersOf } from 'outlast/nestjs';
import { AppModule } from './app.module.js';

export const handlers = handlersOf(await NestFactory.createApplicationContext(AppModule));
