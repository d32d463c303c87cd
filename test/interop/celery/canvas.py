"""Runs the cases named on the command line and prints what each gives, as one JSON object. The environment names the queues."""
import json
import os
import sys
from datetime import datetime, timedelta, timezone

from celery import chain, chord, chunks, group, xmap, xstarmap
from celery.result import GroupResult

from interop import app, store

OURS, THEIRS = os.environ['INTEROP_OURS'], os.environ['INTEROP_THEIRS']
TIMEOUT = int(os.environ.get('INTEROP_TIMEOUT', '30'))


def ts(name, *args, **kwargs):
    return app.signature('ts.' + name, args=args, kwargs=kwargs, queue=OURS)


def py(name, *args, **kwargs):
    return app.signature('interop.' + name, args=args, kwargs=kwargs, queue=THEIRS)


def shape(result):
    """A result as ids and members, where groups are lists."""
    return [shape(one) for one in result.results] if isinstance(result, GroupResult) else result.id


def get(result):
    try:
        return result.get(timeout=TIMEOUT)
    except Exception as error:
        return f'{type(error).__module__}.{type(error).__name__}: {error}'


def children_of_a_chain():
    last = chain(ts('sum', 2, 2), py('add', 1), ts('sum', 1)).apply_async()
    value = get(last)
    first = last.parent.parent
    return {
        'value': value,
        'children': [child.id for child in first.children] == [last.parent.id],
        'collected': [value for _, value in first.collect(timeout=TIMEOUT)],
        'graph': [node.id for node in first.graph.topsort()] == [last.id, last.parent.id, first.id],
        'leaf': first.get_leaf() == value,
    }


def children_of_a_chain_once():
    last = chain(ts('sum', 2, 2), py('add', 1), ts('sum', 1)).apply_async()
    first = last.parent.parent
    first.get(timeout=TIMEOUT)
    return [[child.id for child in first.children] == [last.parent.id], get(last)]


def children_of_links():
    links = [py('add', 1), ts('sum', 2)]
    result = ts('sum', 2, 2).apply_async(link=links)
    get(result)
    [child] = result.children
    one = ts('sum', 2, 2).apply_async(link=[ts('sum', 5)])
    get(one)
    return {'several': sorted(child.get(timeout=TIMEOUT)), 'one': [get(child) for child in one.children]}


def children_with_a_group():
    last = chain(ts('sum', 2, 2), group(py('add', 1), ts('sum', 2)), py('total')).apply_async()
    value = get(last)
    header = last.parent
    first = header.parent
    [child] = first.children
    return {'value': value, 'body': child.id == last.id, 'header': shape(child.parent) == shape(header),
            'values': sorted(header.get(timeout=TIMEOUT))}


def children_of_a_plain_task():
    result = ts('sum', 2, 2).apply_async()
    get(result)
    return [shape(child) for child in result.children or []]


def accumulate():
    send = lambda *args, **kwargs: get(app.send_task('celery.accumulate', args, kwargs, queue=OURS))
    return [send(1, 2), send([1, 2], index=0), send(1, index=7)]


def maps():
    inner = app.signature('ts.sum')
    pairs = [[1, 2], [3, 4], [5, 6]]
    return {
        'map': get(xmap(app.signature('ts.same'), [1, 'two', None], app=app).apply_async(queue=OURS)),
        'starmap': get(xstarmap(inner, pairs, app=app).apply_async(queue=OURS)),
        'chunks': get(chunks(inner, pairs, 2, app=app).apply_async(queue=OURS)),
        'failing': get(xmap(app.signature('ts.broken'), [1], app=app).apply_async(queue=OURS)),
    }


def map_in_a_chain():
    mapped = xstarmap(app.signature('ts.sum'), [[1, 2], [3, 4]], app=app)
    mapped.set(queue=OURS)
    return get(chain(ts('sum', 1, 1), mapped, py('total')).apply_async())


def builtins():
    return {
        name: get(app.send_task('celery.' + name, [], kwargs, queue=OURS))
        for name, kwargs in {
            'chain': {}, 'group': {'tasks': []}, 'chord': {'header': []}, 'chunks': {'it': []},
        }.items()
    }


def backend_cleanup():
    return get(app.send_task('celery.backend_cleanup', queue=OURS))


def replaced_by_a_group():
    inside = chain(ts('sum', 1, 1), py('regroup', OURS, THEIRS), ts('total')).apply_async()
    last = chain(ts('sum', 1, 1), py('regroup', OURS, THEIRS)).apply_async()
    only_ours = chain(py('regroup', OURS, OURS), ts('total')).apply_async([1])
    return [get(inside), get(last), get(only_ours)]


def nested_chords():
    inmost = chain(py('add', 1), group(ts('sum', 1), py('add', 1)), ts('total'))
    middle = chain(ts('sum', 1), group(inmost, ts('sum', 1)), py('total'))
    deep = chain(ts('sum', 1), group(middle, py('add', 1)), ts('same'))
    broken = chain(ts('broken'), group(ts('sum', 1), py('add', 1)), py('total'))
    failing = chain(ts('sum', 1), group(broken, py('add', 1)), ts('same'))
    return [get(one.apply_async()) for one in (deep, failing)]


def replaced_by_a_chord():
    part = lambda: py('rechord', OURS)
    in_header = chord([ts('sum', 1, 1), part()], ts('same'))
    in_group = group(ts('sum', 1, 1), part())
    groups = group(ts('sum', 1, 1), py('regroup', 3, OURS, THEIRS))
    return [get(one.apply_async()) for one in (in_header, in_group, groups)]


def links_of_a_last_group():
    key = 'linked'
    steps = chain(ts('sum', 1), group(ts('sum', 1), py('add', 1)))
    steps.link(py('push', key))
    get(steps.apply_async())
    return sorted(int(store.blpop(key, timeout=TIMEOUT)[1]) for _ in range(2))


def added_to_a_chord():
    header = [py('enlarge', OURS), ts('sum', 1, 1)]
    return [sorted(get(chord(header, ts('same')).apply_async())), sorted(get(chord(header, py('same')).apply_async()))]


def headers_of_a_step():
    values = {'n': 200, 'negative': -300, 'large': 2 ** 40, 'float': 1.5, 'flag': True, 'none': None, 'deep': {'list': [1, -7, 'é']}}
    given = get(chain(ts('sum', 1, 1), py('carried').set(headers=values)).apply_async())
    return {name: given.get(name, 'missing') for name in values}


def stamped(one):
    one.stamp(tenant='x', parts=['a', 'b'], number=200)
    return one


def stamps():
    first = lambda: stamped(ts('sum', 1, 1))
    in_chain = chain(ts('sum', 1, 1), ts('sum', 1), py('stamps'))
    # Without a visitor Celery stamps only the header.
    in_chord = chord([ts('sum', 1, 1), py('add', 1, 1)], stamped(py('stamps')))
    linked = ts('sum', 1, 1)
    linked.link(py('stamps'))
    result = stamped(linked).apply_async()
    get(result)
    return {
        'chain': get(stamped(in_chain).apply_async()),
        'chord': get(stamped(in_chord).apply_async()),
        'link': [get(child) for child in result.children],
        'unstamped': get(chain(first(), py('stamps')).apply_async()),
    }


def revoked_by_stamp():
    # By name: other tests have workers at the same broker.
    node = os.environ['INTEROP_NODE']
    for seconds in (4, 12, 24):
        eta = datetime.now(timezone.utc) + timedelta(seconds=seconds)
        revoked, kept = ts('same', 1), ts('same', 2)
        for one, value in ((revoked, 'revoked'), (kept, 'kept')):
            one.stamp(batch=value)
        results = [one.apply_async(eta=eta) for one in (revoked, kept)]
        headers = {'batch': ['revoked']}
        answers = app.control.revoke_by_stamped_headers(headers, destination=[node], reply=True, timeout=2)
        # On a busy machine the tasks may have begun by now.
        if datetime.now(timezone.utc) < eta:
            break
    said = [answer[node] for answer in answers]
    return {'results': [get(one) for one in results], 'said': said}


print(json.dumps({name: globals()[name]() for name in sys.argv[1:]}))
