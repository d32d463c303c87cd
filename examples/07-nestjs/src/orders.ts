// src/orders.ts: a controller that sends
import { Body, Controller, Get, HttpCode, Post } from '@nestjs/common';
import type { InputOf, Outlast } from 'outlast';
import { InjectOutlast, OutlastHealthIndicator } from 'outlast/nestjs';
import type { PoolClient } from 'pg';
import { sendReceipt } from './tasks.js';

@Controller()
export class Orders {
  constructor(
    @InjectOutlast() private readonly outlast: Outlast<PoolClient>,
    private readonly health: OutlastHealthIndicator,
  ) {}

  @Post('orders')
  @HttpCode(202)
  async place(@Body() body: InputOf<typeof sendReceipt>): Promise<{ task: string }> {
    const permit = await this.outlast.admit(sendReceipt, body); // 429 when the limit is reached
    const sent = await this.outlast.transaction(async tx => {
      // Your own statements go here, with the same `tx`.
      return await this.outlast.send(tx, sendReceipt, body, { permit });
    });
    return { task: sent.id };
  }

  @Get('health')
  async look(): Promise<object> {
    return await this.health.isHealthy('outlast');
  }
}
