"""Waits for the results of the ids given as JSON on standard input, and prints what AsyncResult says of each."""
import json
import sys

from celery.exceptions import TimeoutError as NotYet

from interop import app


def told(task_id):
    result = app.AsyncResult(task_id)
    try:
        return {'state': 'SUCCESS', 'value': result.get(timeout=20)}
    except NotYet:
        return {'state': result.state}
    except BaseException as error:
        said = {'state': result.state, 'type': type(error).__name__, 'args': [str(arg) for arg in error.args]}
        return {**said, 'traceback': result.traceback} if result.traceback else said


request = json.load(sys.stdin)
print('waiting', flush=True)
if request['state_only']:
    print(json.dumps([app.AsyncResult(task_id).state for task_id in request['ids']]))
else:
    print(json.dumps([told(task_id) for task_id in request['ids']]))
