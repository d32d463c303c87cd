"""Sends the calls given as JSON on standard input: [{name, args, kwargs, options}]."""
import json
import sys
from datetime import datetime, timezone

from interop import app


def options_of(call):
    options = dict(call.get('options', {}))
    for name in ('eta', 'expires'):
        if isinstance(options.get(name), str):
            options[name] = datetime.fromisoformat(options[name]).astimezone(timezone.utc)
    return options


for call in json.load(sys.stdin):
    app.send_task(call['name'], call.get('args', []), call.get('kwargs', {}), **options_of(call))
