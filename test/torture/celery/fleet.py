"""The Celery application of the mixed fleet: the same tasks as in `handlers.mjs`, so that a queue may be shared."""
import os
import time

from celery import Celery

app = Celery('fleet', broker=os.environ['FLEET_BROKER'], backend=os.environ['FLEET_BACKEND'])
app.conf.update(
    task_default_queue=os.environ['TORTURE_QUEUE'],
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=4,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    # Without it Python does not wait until RabbitMQ has a message, and a killed RabbitMQ loses what Python sent.
    broker_transport_options={'confirm_publish': True},
    # Celery gives up after 0.6 s and reports the step that it could not send as failed: sooner than a broker is back.
    task_publish_retry_policy={'max_retries': 200, 'interval_start': 0.1, 'interval_step': 0.1, 'interval_max': 1},
    worker_hijack_root_logger=False,
)


@app.task(name='fleet.step')
def step(value, spent=0.05):
    time.sleep(spent)
    return value + 1


@app.task(name='fleet.total')
def total(parts):
    return sum(parts)
