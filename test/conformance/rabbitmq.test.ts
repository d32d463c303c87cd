import type { Broker } from '../../src/broker/broker.ts';
import type { BrokerOptions } from '../../src/config/broker-target.ts';
import { rabbitBroker } from '../support/rabbit-broker.ts';
import { rabbitmqUrl } from '../support/servers.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { describeBroker, type BrokerFixture } from './broker.ts';

async function makeFixture(options: Omit<BrokerOptions, 'url'>): Promise<BrokerFixture> {
  const proxies = new Map<Broker, TcpProxy>();
  return {
    connect: async () => {
      const proxy = await TcpProxy.to(rabbitmqUrl());
      const broker = rabbitBroker({ ...options, url: proxy.url(rabbitmqUrl()) });
      proxies.set(broker, proxy);
      return broker;
    },
    disconnect: async broker => await proxies.get(broker)?.close(),
    dispose: async () => {
      for (const [broker, proxy] of proxies) {
        await broker.close();
        await proxy.close();
      }
    },
  };
}

describeBroker('RabbitMQ, classic queues', () => makeFixture({ maxPriority: 10 }));
describeBroker('RabbitMQ, quorum queues', () => makeFixture({ queueType: 'quorum' }), {
  urgent: null,
});
