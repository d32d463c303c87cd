"""Sends values that JSON does not have, and prints types and texts of what comes back. Arguments: a queue of TypeScript, and the cases."""
import json
import sys
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import kombu
from celery import chain

from interop import app, describe

PATIENCE_SECONDS = 90
LATER = datetime.now(timezone.utc) + timedelta(seconds=2)
queue, cases = sys.argv[1], sys.argv[2:]
utc = datetime(2026, 3, 1, 10, 0, 0, 6, tzinfo=timezone.utc)
values = {
    'utc': utc,
    'naive': utc.replace(tzinfo=None),
    'offset': utc.astimezone(timezone(timedelta(hours=2))),
    'day': date(2026, 3, 1),
    'clock': time(10, 0, 0),
    'amount': Decimal('1.10'),
    'key': UUID('12345678123446789234567812345678'),
}
floats = [2.0 ** 60, 1e16, -0.0, 1.5, float('nan'), float('inf'), float('-inf')]
# An older kombu sends no bytes.
marks = tuple(int(part) for part in kombu.__version__.split('.')[:2]) >= (5, 3)


def ours(name, *args, **kwargs):
    return app.signature(name, args=args, kwargs=kwargs, queue=queue)


def python(*args):
    return app.signature('interop.describe', args=args, queue=f'{queue}.python')


def run(case):
    if case == 'texts':
        return ours('ts.texts', **values)
    if case == 'bytes':
        return ours('ts.texts', blob=[b'\xff\x00', 'žlutý'.encode()] if marks else [])
    if case == 'floats':
        return chain(ours('ts.same', floats), python())
    if case == 'passed':
        # The second step has arguments of its own, which no program on the way may change.
        return chain(ours('ts.same', 1), python([1.0, *floats], values))
    if case == 'later':
        return chain(ours('ts.same', 'later'), ours('ts.now').set(eta=LATER))
    if case == 'returned':
        return ours('ts.typed')
    raise ValueError(case)


for case in cases:
    value = run(case).apply_async().get(timeout=PATIENCE_SECONDS)
    if case == 'later':
        value = value >= LATER.timestamp() * 1000
    # These come from a task that has described them already.
    is_described = case in ('floats', 'passed')
    print(json.dumps({'marks': marks, 'shown': value if is_described else describe(value)[0]}), flush=True)
