"""A worker of Celery's that hands on tasks it does not know, to a queue of those who do: named by `worker_consumer`."""
from celery.worker.consumer import Consumer
from kombu import Exchange, Queue


class SharingConsumer(Consumer):
    def on_unknown_task(self, body, message, exc):
        name = message.delivery_info['routing_key'] + '.ts'
        queue = Queue(name, Exchange(name, type='direct'), routing_key=name)
        kept = ('correlation_id', 'reply_to', 'priority')
        with self.app.producer_or_acquire() as producer:
            # First there, then gone here: a worker that dies in between has handed it on twice, and never not at all.
            producer.publish(
                message.body, exchange='', routing_key=name, declare=[queue], headers=message.headers, retry=True,
                content_type=message.content_type, content_encoding=message.content_encoding,
                **{name: message.properties[name] for name in kept if name in message.properties})
        message.ack()
