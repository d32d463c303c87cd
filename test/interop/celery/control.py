"""Asks workers, as `celery inspect` and `celery control` do: each line of standard input is [method, arguments, node]."""
import json
import sys

from interop import app

for line in sys.stdin:
    method, arguments, node = json.loads(line)
    replies = app.control.broadcast(
        method, arguments=arguments, destination=[node], reply=True, timeout=3, limit=1,
    )
    print(json.dumps(replies or []), flush=True)
