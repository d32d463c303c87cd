"""Prints the headers and properties of the first messages of queues as py-amqp reads them, one JSON line each."""
import json
import sys
from urllib.parse import unquote, urlparse

import amqp

url = urlparse(sys.argv[1])
connection = amqp.Connection(
    f'{url.hostname}:{url.port}',
    userid=unquote(url.username or 'guest'),
    password=unquote(url.password or 'guest'),
    virtual_host=unquote(url.path[1:]) or '/',
)
with connection:
    channel = connection.channel()
    for queue in sys.argv[2:]:
        message = channel.basic_get(queue, no_ack=True)
        print(json.dumps(message and message.properties), flush=True)
