"""A Celery worker whose tasks tell that they run, and do not end by themselves."""
import os
import time

from celery import Celery

app = Celery('recovery', broker=os.environ['BENCH_BROKER'])
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
    task_acks_late=os.environ.get('BENCH_ACKS_LATE') == '1',
    broker_connection_retry_on_startup=True,
)
if app.conf.broker_url.startswith('redis'):
    app.conf.broker_transport_options = {'visibility_timeout': int(os.environ['BENCH_VISIBILITY_SECONDS'])}


@app.task(name='recovery.stay')
def stay(path):
    if not os.path.exists(path):
        return
    with open(path, 'a') as file:
        file.write(f'{os.getpid()}\n')
    while os.path.exists(path):
        time.sleep(0.05)
