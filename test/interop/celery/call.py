"""Sends the workflows given as JSON on standard input, prints their ids, then what AsyncResult.get() says of each."""
import json
import sys
from datetime import datetime, timezone

from celery import chain, chord, group
from celery.exceptions import TimeoutError as NotYet

from interop import app

PATIENCE_SECONDS = 90


def options_of(node):
    options = dict(node.get('options', {}))
    for name in ('eta', 'expires'):
        if isinstance(options.get(name), str):
            options[name] = datetime.fromisoformat(options[name]).astimezone(timezone.utc)
    return options


def build(node):
    if 'chain' in node:
        return chain(*[build(step) for step in node['chain']])
    if 'group' in node:
        return group([build(member) for member in node['group']])
    if 'header' in node:
        return chord([build(member) for member in node['header']], build(node['body']))
    signature = app.signature(
        node['name'], args=node.get('args', []), kwargs=node.get('kwargs', {}),
        options=options_of(node), immutable=node.get('immutable', False),
    )
    for following in node.get('link', []):
        signature.link(build(following))
    for following in node.get('linkError', []):
        signature.link_error(build(following))
    return signature


def told(result):
    seen = []

    def on_message(meta):
        if meta.get('task_id') == result.id:
            seen.append(meta['status'])

    try:
        value = result.get(timeout=PATIENCE_SECONDS, on_message=on_message)
        return {'state': 'SUCCESS', 'value': value, 'seen': seen}
    except NotYet:
        return {'state': getattr(result, 'state', 'PENDING'), 'seen': seen}
    except BaseException as error:
        args = [str(arg) for arg in error.args]
        return {'state': getattr(result, 'state', 'FAILURE'), 'type': type(error).__name__,
                'module': type(error).__module__, 'args': args, 'seen': seen}


results = [build(node).apply_async() for node in json.load(sys.stdin)]
print(json.dumps([result.id for result in results]), flush=True)
print(json.dumps([told(result) for result in results]), flush=True)
