"""Sends chains and chords, says when all are sent, then waits for them and prints what became of each, as one JSON line."""
import json
import sys
import time

from celery import chain, chord

from fleet import app, step, total

chains, chords, silence = (int(text) for text in sys.argv[1:])

wanted = {}
for number in range(max(chains, chords)):
    if number < chains:
        wanted[chain(step.s(number), step.s(), step.s()).apply_async().id] = number + 3
    if number < chords:
        wanted[chord([step.s(number + part) for part in range(4)], total.s()).apply_async().id] = 4 * number + 10
print('sent', flush=True)

ends = {'done': 0, 'wrong': 0, 'failed': 0}
reasons = set()
open_ids, last = set(wanted), time.monotonic()
while open_ids and time.monotonic() - last < silence:
    for task_id in list(open_ids):
        result = app.AsyncResult(task_id)
        state = result.state
        if state not in ('SUCCESS', 'FAILURE', 'REVOKED'):
            continue
        open_ids.discard(task_id)
        last = time.monotonic()
        if state == 'SUCCESS':
            ends['done' if result.result == wanted[task_id] else 'wrong'] += 1
        else:
            ends['failed'] += 1
            reasons.add(repr(result.result)[:300])
    print(f'open {len(open_ids)}', file=sys.stderr, flush=True)
    time.sleep(0.5)
with app.connection_for_read() as connection:
    # What still waits was not lost: its workers hang.
    waiting = connection.default_channel.queue_declare(app.conf.task_default_queue, passive=True).message_count
print(json.dumps({**ends, 'messages waiting': waiting, 'without an end': len(open_ids), 'open': sorted(open_ids)[:5], 'reasons': sorted(reasons)[:5]}), flush=True)
