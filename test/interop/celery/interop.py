"""The Celery application of the tests: tasks that tell what they were given, in a Redis of their own."""
import os
import time

import redis
from celery import Celery, chain, chord, group
from celery.bootsteps import StartStopStep
from kombu import Exchange, Queue

from error_links import either_style

app = Celery('interop', broker=os.environ['INTEROP_BROKER'], backend=os.environ['INTEROP_BACKEND'])
app.conf.update(
    # One message at a time, so that the order of running is the order of the queue.
    worker_prefetch_multiplier=int(os.environ.get('INTEROP_PREFETCH', '1')),
    task_acks_late=True,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
    task_track_started=True,
    task_default_queue=os.environ.get('INTEROP_DEFAULT_QUEUE', 'celery'),
    # RabbitMQ: queues that the tests declared with priorities must be declared so here too.
    worker_consumer=os.environ.get('INTEROP_CONSUMER', 'celery.worker.consumer:Consumer'),
    task_queue_max_priority=int(os.environ['INTEROP_MAX_PRIORITY']) if 'INTEROP_MAX_PRIORITY' in os.environ else None,
)
if 'INTEROP_QUORUM' in os.environ:
    kind, *names = os.environ['INTEROP_QUORUM'].split(',')
    app.conf.update(
        task_default_exchange_type=kind,
        task_queues=[
            Queue(name, Exchange(name, type=kind), routing_key=name, queue_arguments={'x-queue-type': 'quorum'})
            for name in names
        ],
    )


class Ticking(StartStopStep):
    """Celery's loop may sleep ten seconds with acknowledgements in hand, and is sent nothing meanwhile: a timer wakes it."""

    requires = {'celery.worker.components:Hub'}

    def start(self, worker):
        worker.hub.call_repeatedly(0.05, lambda: None)


app.steps['worker'].add(Ticking)
# Where the tasks themselves write; results may be elsewhere.
store = redis.Redis.from_url(os.environ['INTEROP_STORE'])


@app.task(name='interop.echo')
def echo(*args, **kwargs):
    return {'args': args, 'kwargs': kwargs, 'at': time.time()}


@app.task(name='interop.record', bind=True)
def record(self, key):
    store.rpush(key, self.request.id)


@app.task(name='interop.tally', bind=True)
def tally(self, key):
    store.rpush(key, f'{self.request.id} {self.request.retries}')


@app.task(name='interop.hold')
def hold(key):
    store.blpop(key)


@app.task(name='interop.headers', bind=True)
def headers(self):
    return {
        'region': self.request.get('headers', {}).get('region'),
        'origin': self.request.origin,
        'root_id': self.request.root_id,
        'timelimit': self.request.timelimit,
        'priority': self.request.delivery_info['priority'],
    }


@app.task(name='interop.carried', bind=True)
def carried(self, *_):
    return dict(self.request.headers or {})


@app.task(name='interop.place', bind=True)
def place(self, *_):
    return self.request.delivery_info['routing_key']


@app.task(name='interop.routed', bind=True)
def routed(self, *_):
    return self.request.delivery_info['routing_key']


@app.task(name='interop.add')
def add(a, b):
    return a + b


@app.task(name='interop.fail')
def fail(text):
    raise ValueError(text)


@app.task(name='interop.replace', bind=True)
def replace(self, queue, *names):
    self.replace(chain(*[app.signature(name, args=['replaced'], immutable=True, queue=queue) for name in names]))


@app.task(name='interop.alarm')
def alarm(task_id):
    store.rpush('alarms', task_id)


@app.task(name='interop.told')
@either_style
def told(request, exc, traceback):
    store.rpush(f'told:{request.id}', f'{type(exc).__name__}: {exc}')


@app.task(name='interop.total')
def total(parts):
    return sum(parts)


@app.task(name='interop.describe')
def describe(*args):
    """The types and texts of what it was given, at every depth of lists and dictionaries."""
    def shown(value):
        if isinstance(value, (list, tuple)):
            return [shown(item) for item in value]
        if isinstance(value, dict):
            return {key: shown(item) for key, item in value.items()}
        return f'{type(value).__name__} {value!r}'
    return shown(args)


@app.task(name='interop.give')
def give(text):
    return float(text)


@app.task(name='interop.same')
def same(value):
    return value


@app.task(name='interop.stamps', bind=True)
def stamps(self, *_):
    return {'stamps': self.request.stamps or {}, 'names': sorted(self.request.stamped_headers or [])}


@app.task(name='interop.regroup', bind=True)
def regroup(self, value, *queues):
    names = {queue: 'ts.sum' if index == 0 or len(set(queues)) == 1 else 'interop.add' for index, queue in enumerate(queues)}
    tasks = [app.signature(names[queue], args=[value, index], immutable=True, queue=queue) for index, queue in enumerate(queues)]
    return self.replace(group(tasks))


@app.task(name='interop.rechord', bind=True)
def rechord(self, queue):
    ours = lambda *args: app.signature('ts.sum', args=args, queue=queue)
    return self.replace(chord([ours(1), ours(5)], ours(1)))


@app.task(name='interop.push')
def push(value, key):
    store.rpush(key, value)


@app.task(name='interop.enlarge', bind=True)
def enlarge(self, queue):
    self.add_to_chord(app.signature('ts.sum', args=[10, 10], queue=queue))
    return 1
