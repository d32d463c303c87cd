"""Sends a task to a queue of TypeScript now and one with a countdown, and prints whether the second ran before its time."""
import json
import sys
import time

from interop import app

PATIENCE_SECONDS = 90
COUNTDOWN_SECONDS = 3
queue = sys.argv[1]

first = app.send_task('ts.now', queue=queue)
first.get(timeout=PATIENCE_SECONDS)
not_before = time.time() + COUNTDOWN_SECONDS
later = app.send_task('ts.now', queue=queue, countdown=COUNTDOWN_SECONDS)
print(json.dumps({'isTooEarly': later.get(timeout=PATIENCE_SECONDS) / 1000 < not_before - 0.1}))
