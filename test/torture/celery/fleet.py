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
    worker_hijack_root_logger=False,
)


@app.task(name='fleet.step')
def step(value, spent=0.05):
    time.sleep(spent)
    return value + 1


@app.task(name='fleet.total')
def total(parts):
    return sum(parts)
