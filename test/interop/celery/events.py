"""Prints every event that workers send, one JSON object a line; the first line says that it listens."""
import json

from celery.events.receiver import EventReceiver
from interop import app


def show(event):
    print(json.dumps(event), flush=True)


class Receiver(EventReceiver):
    def on_consume_ready(self, *args, **kwargs):
        super().on_consume_ready(*args, **kwargs)
        show({'type': 'listening'})


with app.connection_for_read() as connection:
    Receiver(connection, handlers={'*': show}, app=app).capture(limit=None, timeout=None, wakeup=True)
