// src/app.module.ts: the instance on a pool that Nest provides, and a worker in this process
import { Injectable, Module, type OnApplicationShutdown } from '@nestjs/common';
import { createOutlast, startWorker } from 'outlast';
import { OutlastModule } from 'outlast/nestjs';
import { fromPg } from 'outlast/pg';
import { Pool } from 'pg';
import { Orders } from './orders.js';
import { Mailer, Receipts } from './receipts.js';

@Injectable()
export class Database implements OnApplicationShutdown {
  readonly pool = new Pool({ connectionString: process.env['OUTLAST_DATABASE_URL'] });

  async onApplicationShutdown(): Promise<void> {
    await this.pool.end();
    console.log('closed');
  }
}

@Module({ providers: [Database], exports: [Database] })
export class DatabaseModule {}

@Module({
  imports: [
    OutlastModule.forRootAsync({
      imports: [DatabaseModule],
      inject: [Database],
      useFactory: ({ pool }: Database) => {
        const outlast = createOutlast({ adapter: fromPg(pool), context: ['requestId'] });
        return { outlast, services: tasks => [startWorker(outlast, { tasks })] };
      },
    }),
  ],
  controllers: [Orders],
  providers: [Mailer, Receipts],
})
export class AppModule {}
