"""Celery with the same messages: late acknowledgements, as a task that must not be lost needs them, and results where they are asked for."""

import os
import threading
import time

from celery import Celery
from celery.signals import worker_process_init

results = os.environ.get("BENCH_RESULT_URL") or None
app = Celery("bench", broker=os.environ["BENCH_BROKER_URL"], backend=results)
app.conf.task_acks_late = True
app.conf.task_ignore_result = results is None
app.conf.worker_send_task_events = False
app.conf.broker_connection_retry_on_startup = True

EVERY = 100
PAUSE_SECONDS = 0.05
state = {"count": 0, "last": 0.0, "told": True}
lock = threading.Lock()


def tell():
    with lock:
        path = os.path.join(os.environ["BENCH_FOLDER"], str(os.getpid()))
        cpu = int(time.process_time() * 1e6)
        with open(path, "a") as file:
            file.write(f"{state['last'] * 1000} {state['count']} {cpu}\n")
        state["told"] = True


def watch():
    while True:
        time.sleep(PAUSE_SECONDS)
        if not state["told"]:
            tell()


@worker_process_init.connect
def start(**_):
    with open(os.path.join(os.environ["BENCH_FOLDER"], "notes"), "a") as file:
        file.write(f"{time.time() * 1000} {os.getpid()} loaded\n")
    threading.Thread(target=watch, daemon=True).start()


@app.task(name="bench.noop")
def noop(**_):
    state["count"] += 1
    state["last"] = time.time()
    state["told"] = False
    if state["count"] % EVERY == 0:
        tell()
