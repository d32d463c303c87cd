// src/receipts.ts: a provider whose method runs the task, with what is injected into it
import { Injectable } from '@nestjs/common';
import type { ParsedOf, TaskContext } from 'outlast';
import { Handles } from 'outlast/nestjs';
import { sendReceipt } from './tasks.js';

@Injectable()
export class Mailer {
  send(orderId: string, request: string | undefined): void {
    console.log(`receipt for order ${orderId}, asked for by request ${request}`);
  }
}

@Injectable()
export class Receipts {
  constructor(private readonly mailer: Mailer) {}

  @Handles(sendReceipt, { retry: { maxAttempts: 3 } })
  send({ orderId }: ParsedOf<typeof sendReceipt>, ctx: TaskContext): void {
    this.mailer.send(orderId, ctx.context['requestId']);
  }
}
