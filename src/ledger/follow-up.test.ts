import { describe, expect, it } from 'vitest';
import { chordLinks } from '../task/chord-link.ts';
import { derivedId, digestOf } from '../task/digest.ts';
import type { Envelope, EnvelopeOptions } from '../task/envelope.ts';
import { toBytes, toText } from '../task/json.ts';
import { Keyring, NO_KEYS } from '../task/keyring.ts';
import { readOptions } from '../task/read-options.ts';
import { makeRedact, redactEmbed } from '../task/redact.ts';
import { afterDone, afterEnded, checkFollowUps, chordBody, type FollowDeps } from './follow-up.ts';
import { DestinationGuard } from '../broker/destination-guard.ts';
import { systemClock } from '../runtime/runtime.ts';
import { sendEntries } from './carry-out.ts';
import type { AfterEntry, ChordPartEntry, FollowUp } from './ledger.ts';

const deps: FollowDeps = {
  nowMs: 1_000_000,
  queueOf: () => null,
  redact: null,
  keyring: NO_KEYS,
  answers: false,
};

function made(embed: string, options: EnvelopeOptions = {}): Envelope {
  const body = toBytes(`[[1.0], {"a": 1}, ${embed}]`);
  const named = { id: 'parent', name: 'py.add', version: 1, body };
  return {
    ...named,
    queue: 'celery',
    priority: 0,
    options: toBytes(JSON.stringify(options)),
    digest: digestOf(named),
    etaMs: null,
    expiresMs: null,
  };
}
const published = (entries: readonly FollowUp[]): readonly Envelope[] =>
  entries.flatMap(entry => ('publish' in entry ? [entry.publish] : []));
const parts = (entries: readonly FollowUp[]): readonly ChordPartEntry[] =>
  entries.flatMap(entry => ('part' in entry ? [entry] : []));
const bodyOf = (envelope: Envelope | undefined): string => toText(envelope?.body ?? toBytes(''));
const optionsOf = (envelope: Envelope | undefined): EnvelopeOptions =>
  JSON.parse(toText(envelope?.options ?? toBytes('{}'))) as EnvelopeOptions;

/** A signature as Python writes it: with spaces, and with keys that we do not use. */
const sig = (task: string, args: string, options = '{}', immutable = false): string =>
  `{"task": "${task}", "args": ${args}, "kwargs": {}, "options": ${options}, "subtask_type": null, "immutable": ${immutable}}`;
const embedOf = (fields: Partial<Record<'callbacks' | 'errbacks' | 'chain' | 'chord', string>>) =>
  `{"callbacks": ${fields.callbacks ?? 'null'}, "errbacks": ${fields.errbacks ?? 'null'}, "chain": ${fields.chain ?? 'null'}, "chord": ${fields.chord ?? 'null'}}`;

describe('the rest of a chain whose step ended without a result', () => {
  const error = { type: 'NoFunds', message: 'none', traceback: 'at pay' };
  const step = (id: string, more = ''): string =>
    sig('py.b', '[]', `{"task_id": "${id}", "reply_to": "callers"${more}}`);
  const ended = (chain: string, how: 'dead' | 'cancelled' = 'dead') =>
    ({ envelope: made(embedOf({ chain })), how, epoch: 1, error }) as const;
  const answered = (entries: readonly FollowUp[]) =>
    entries.flatMap(entry => ('reply' in entry ? [entry.reply] : []));

  it('answers the callers of every later step, also of those inside of groups, chords and chains', () => {
    const inner = (task: string, kwargs: string): string =>
      `{"task": "${task}", "args": [], "kwargs": ${kwargs}, "options": {"task_id": "group", "reply_to": "callers"}}`;
    const header = inner('celery.group', `{"tasks": [${step('header')}]}`);
    const body = `{"task": "celery.chain", "args": [], "kwargs": {"tasks": [${step('first')}, ${step('last')}]}, "options": {"chain": [${step('rest')}]}}`;
    const chord = inner('celery.chord', `{"header": ${header}, "body": ${body}}`);
    const silent = step('silent', ', "ignore_result": true');
    const chain = `[${silent}, "broken", ${chord}, ${step('b', ', "correlation_id": "c"')}]`;
    const entries = afterEnded(ended(chain), { ...deps, answers: true });
    const replies = answered(entries);
    const ids = replies.map(({ body: text }) => (JSON.parse(text) as { task_id: string }).task_id);
    expect(ids).toEqual(['header', 'first', 'last', 'rest', 'b']);
    expect(replies.at(-1)).toMatchObject({ replyTo: 'callers', correlationId: 'c' });
    expect(replies[0]).toMatchObject({ replyTo: 'callers', correlationId: 'header' });
    expect(JSON.parse(replies[0]?.body ?? '')).toMatchObject({
      status: 'FAILURE',
      result: { exc_type: 'NoFunds', exc_message: ['none'] },
      traceback: 'at pay',
    });
    expect(answered(afterEnded(ended(chain), deps))).toEqual([]);
    const revoked = answered(afterEnded(ended(chain, 'cancelled'), { ...deps, answers: true }));
    expect(revoked[0]?.body).toContain('"status": "REVOKED"');
  });

  it('is answered briefly where very many wait', () => {
    const long = { ...error, traceback: 'x'.repeat(8_000) };
    const steps = Array.from({ length: 1_000 }, (_, index) => step(`id-${index}`)).join(',');
    const entries = afterEnded({ ...ended(`[${steps}]`), error: long }, { ...deps, answers: true });
    const bytes = answered(entries).reduce((sum, { body }) => sum + body.length, 0);
    expect(answered(entries)).toHaveLength(1_000);
    expect(bytes).toBeLessThan(1_000_000);
  });

  it('is stored for callers that read results in the ledger, by the first entry that is carried out', async () => {
    const told: unknown[] = [];
    const unused = () => Promise.reject(new Error('not used here'));
    const recordNeverSent = async (...args: unknown[]) => void told.push(args);
    const ledger = { joinChord: unused, bury: unused, recordNeverSent };
    const broker = { publish: async () => [] };
    const entry = { key: 'k', ended: ended(`[${step('last')}, ${step('next')}]`) };
    const guard = new DestinationGuard(broker, systemClock);
    const { done } = await sendEntries([entry], { guard, limitMs: 1_000, ledger, follow: deps });
    expect(done).toEqual([entry]);
    expect(told).toEqual([[['last', 'next'], { status: 'FAILURE', error }, 'parent']]);
    // A sender without a key must not make us report the ends of others' tasks.
    const keyring = new Keyring([{ id: 'k', secret: toBytes('x'.repeat(32)) }], {
      unsignedQueues: { celery: ['*'] },
    });
    const follow = { ...deps, keyring };
    await sendEntries([entry], { guard, limitMs: 1_000, ledger, follow });
    expect(told).toHaveLength(1);
  });
});

describe('a chain inside of another signature', () => {
  const inner = (task: string, kwargs: string, options = '{}'): string =>
    `{"task": "celery.${task}", "args": [], "kwargs": ${kwargs}, "options": ${options}, "immutable": false}`;
  const step = (id: string, options = ''): string =>
    sig(`py.${id}`, '[]', `{"task_id": "${id}"${options}}`);
  const embedIn = (envelope: Envelope | undefined) =>
    (JSON.parse(bodyOf(envelope)) as [unknown, unknown, Record<string, { task: string }[]>])[2];
  const names = (list: readonly { readonly task: string }[] | undefined) =>
    list?.map(({ task }) => task);

  /** The body of a chord as Celery 5.2.6 sends it for `group | a | b | group | c`. */
  const chain = inner(
    'chain',
    `{"tasks": [${step('a')}, ${step('b')}]}`,
    `{"chain": [${step('c')}], "link": [${step('l')}], "link_error": [${step('e')}]}`,
  );

  it('is followed by the rest that stands in its own options', () => {
    const part = parts(afterDone(made(embedOf({ chord: chain }), { groupId: 'g' }), '1', deps))[0];
    const [body] = chordBody(part as ChordPartEntry, { results: ['1'], isSigned: false }, deps);
    expect(body?.id).toBe('a');
    expect(names(embedIn(body)['chain'])).toEqual(['py.c', 'py.b']);
    const [next] = published(afterDone(body as Envelope, '1', deps));
    const [last] = published(afterDone(next as Envelope, '1', deps)).slice(-1);
    expect([next?.id, last?.id]).toEqual(['b', 'c']);
  });

  it('calls its error links whichever step fails, and its links after its own last step', () => {
    const [body] = published(afterDone(made(embedOf({ chain: `[${chain}]` })), '1', deps));
    const [, next] = embedIn(body)['chain'] as unknown as { options: Record<string, [] | null> }[];
    expect(names(embedIn(body)['errbacks'])).toEqual(['py.e']);
    expect(names(next?.options['link_error'] ?? [])).toEqual(['py.e']);
    expect(names(next?.options['link'] ?? [])).toEqual(['py.l']);
    expect(embedIn(body)['callbacks']).toBe(null);
  });

  it('gives way to what follows it where it has no steps', () => {
    const empty = inner('chain', '{"tasks": []}', `{"chain": [${step('c')}]}`);
    const [next] = published(afterDone(made(embedOf({ chain: `[${empty}]` })), '7', deps));
    expect([next?.id, bodyOf(next).slice(0, 4)]).toEqual(['c', '[[7]']);
  });

  it('keeps the rest of the chord around it, also behind the rest of its body', () => {
    const header = inner('group', `{"tasks": [${step('h')}]}`, '{"task_id": "g"}');
    const chord = inner('chord', `{"header": ${header}, "body": ${chain}}`);
    const [part] = published(
      afterDone(made(embedOf({ chain: `[${step('d')}, ${chord}]` })), '1', deps),
    );
    const [entry] = parts(afterDone(part as Envelope, '2', deps));
    const [body] = chordBody(entry as ChordPartEntry, { results: ['2'], isSigned: false }, deps);
    expect(names(embedIn(body)['chain'])).toEqual(['py.d', 'py.c', 'py.b']);
  });

  it('is refused before its task runs where a task follows a group that is no chord', () => {
    const group = inner('group', `{"tasks": [${step('h')}]}`);
    const envelope = made(embedOf({ chain: `[${step('d')}, ${group}]` }));
    expect(() => checkFollowUps(envelope)).toThrow('not the body of its chord');
  });
});

describe('the follow-up of a task that is done', () => {
  it('is the next step of its chain, with the rest of the chain and every byte unchanged', () => {
    const last = sig('py.c', '[8.0]', '{"task_id": "id-c", "reply_to": "q"}');
    const chain = `[${last}, ${sig('py.b', '[4.0, 12345678901234567890]', '{"task_id": "id-b"}')}]`;
    const [next, ...others] = published(afterDone(made(embedOf({ chain })), '3.50', deps));
    expect(others).toEqual([]);
    expect(next).toMatchObject({ id: 'id-b', name: 'py.b', queue: 'celery', version: 1 });
    expect(bodyOf(next)).toBe(
      `[[3.50,4.0,12345678901234567890],{},{"callbacks":null,"errbacks":null,"chain":[${last}],"chord":null}]`,
    );
    expect(optionsOf(next)).toEqual({ rootId: 'parent', parentId: 'parent' });
    const [end] = published(afterDone(next as Envelope, '{"x": 1}', deps));
    expect(bodyOf(end)).toBe(
      '[[{"x": 1},8.0],{},{"callbacks":null,"errbacks":null,"chain":[],"chord":null}]',
    );
    expect(optionsOf(end)).toEqual({ rootId: 'parent', parentId: 'id-b', replyTo: 'q' });
    expect(afterDone(end as Envelope, '1', deps)).toEqual([]);
  });

  it('gets no result when its signature is immutable, and a derived id when it has none', () => {
    const callbacks = `[${sig('py.b', '[1]', '{}', true)}, ${sig('py.c', '[]')}]`;
    const entries = afterDone(made(embedOf({ callbacks })), '7', deps);
    expect(published(entries).map(({ id, name }) => [id, name])).toEqual([
      [derivedId('parent', 'link:0'), 'py.b'],
      [derivedId('parent', 'link:1'), 'py.c'],
    ]);
    expect(
      published(entries).map(envelope => (JSON.parse(bodyOf(envelope)) as unknown[])[0]),
    ).toEqual([[1], [7]]);
    expect(afterDone(made(embedOf({ callbacks })), '7', deps)).toEqual(entries);
  });

  it('has the options of its signature', () => {
    const options = JSON.stringify({
      task_id: 'x',
      queue: 'vip',
      priority: 12,
      countdown: 1.5,
      expires: '2030-01-02T03:04:05.678901',
      time_limit: 20,
      soft_time_limit: 10,
      ignore_result: true,
      shadow: 'pretty',
      headers: { 'outlast-schema': 4, region: 'eu', n: 7, deep: { a: [1] } },
      root_id: null,
      parent_id: null,
    });
    const callbacks = `[${sig('py.b', '[]', options)}]`;
    const envelope = made(embedOf({ callbacks }), {
      rootId: 'root',
      deadlineMs: 4_000_000_000_000,
    });
    const [child] = published(afterDone(envelope, '1', deps));
    expect(child).toMatchObject({
      queue: 'vip',
      priority: 9,
      version: 4,
      etaMs: 1_001_500,
      expiresMs: Date.parse('2030-01-02T03:04:05.678Z'),
    });
    expect(optionsOf(child)).toEqual({
      headers: { region: 'eu', n: '7', deep: '{"a":[1]}' },
      jsonHeaders: ['n', 'deep'],
      timeoutMs: 20_000,
      softTimeoutMs: 10_000,
      keepResult: false,
      shadow: 'pretty',
      rootId: 'root',
      parentId: 'parent',
      deadlineMs: 4_000_000_000_000,
    });
  });

  it('goes to the queue of its contract when its signature names none', () => {
    const callbacks = `[${sig('ts.known', '[]')}, ${sig('py.unknown', '[]')}]`;
    const queueOf = (name: string): string | null => (name === 'ts.known' ? 'ours' : null);
    const entries = afterDone(made(embedOf({ callbacks })), '1', { ...deps, queueOf });
    expect(published(entries).map(({ queue }) => queue)).toEqual(['ours', 'celery']);
  });

  it('is redacted in its shown copy, including its own follow-ups', () => {
    const link = sig('py.c', '["secret"]');
    const callbacks = `[${sig('py.b', '["secret"]', `{"link": [${link}]}`)}]`;
    const redact = makeRedact(
      ({ args, kwargs }) => ({ args: args.map(() => '***'), kwargs }),
      () => undefined,
    );
    const [child] = published(
      afterDone(made(embedOf({ callbacks })), '"secret"', { ...deps, redact }),
    );
    expect(bodyOf(child)).toContain('"secret"');
    expect(JSON.stringify(optionsOf(child).redacted)).not.toContain('secret');
    expect(optionsOf(child).redacted?.args).toBe('["***","***"]');
  });
});

describe('a task that reports to its chord by links', () => {
  const body = sig('py.sum', '["secret"]', '{"task_id": "id-sum"}');
  const position = { groupId: 'g', index: 1, size: 2, body };
  const links = chordLinks(position, 'parent', { queue: 'chords', keyring: NO_KEYS });
  const own = sig('py.b', '[]');
  const envelope = made(
    embedOf({ callbacks: `[${own}, ${links.done}]`, errbacks: `[${own}, ${links.failed}]` }),
  );
  const part = { groupId: 'g', index: 1, size: 2, taskId: 'parent', bodyId: 'id-sum' };

  it('is counted here, without a message', () => {
    const entries = afterDone(envelope, '1.0', deps);
    expect(published(entries).map(({ name }) => name)).toEqual(['py.b']);
    expect(parts(entries)).toMatchObject([{ body, part: { ...part, result: '1.0' } }]);
    checkFollowUps(envelope);
  });

  it.each(['dead', 'discarded', 'cancelled', 'expired'] as const)(
    'is counted as failed when it is %s',
    how => {
      const entries = afterEnded({ envelope, how, epoch: 1 }, deps) as FollowUp[];
      expect(parts(entries)).toMatchObject([{ part: { ...part, result: null } }]);
      expect(published(entries)).toHaveLength(how === 'dead' ? 1 : 0);
    },
  );

  it('shows nothing of its body that a redactor hides', () => {
    const shown = redactEmbed(
      embedOf({ callbacks: `[${links.done}]` }),
      makeRedact(
        () => ({ args: ['***'], kwargs: {} }),
        () => undefined,
      ),
    );
    expect(shown).toContain('py.sum');
    expect(shown).not.toContain('secret');
  });
});

/** Taken from a real Celery: chain(add.s(1, 1), group(add.s(10), add.s(20)), xsum.s()). */
const XSUM = sig('py.xsum', '[]', '{"task_id": "id-sum", "reply_to": "q"}');
const inGroup = (n: number, id: string, index: number): string =>
  sig(
    'py.add',
    `[${n}]`,
    `{"task_id": "${id}", "reply_to": "q", "chord": ${XSUM}, "group_index": ${index}}`,
  );
const GROUP = `{"task": "celery.group", "args": [], "kwargs": {"tasks": [${inGroup(10, 'id-10', 0)}, ${inGroup(20, 'id-20', 1)}]}, "options": {"task_id": "id-group", "chord": ${XSUM}, "root_id": null, "parent_id": null}, "subtask_type": "group", "immutable": false}`;
const CHORD = `{"task": "celery.chord", "args": [], "kwargs": {"kwargs": {}, "header": ${GROUP}, "body": ${XSUM}}, "options": {"task_id": "id-group"}, "subtask_type": "chord", "immutable": false}`;

describe('a workflow inside a chain, as Python sends it', () => {
  it('is expanded: the header is sent, and the body waits for it with the rest of the chain', () => {
    const rest = sig('py.after', '[]', '{"task_id": "id-after"}');
    const chain = `[${rest}, ${CHORD}]`;
    const header = published(afterDone(made(embedOf({ chain })), '2', deps));
    expect(header.map(({ id, name }) => [id, name])).toEqual([
      ['id-10', 'py.add'],
      ['id-20', 'py.add'],
    ]);
    expect(header.map(envelope => (JSON.parse(bodyOf(envelope)) as unknown[])[0])).toEqual([
      [2, 10],
      [2, 20],
    ]);
    expect(header.map(optionsOf)).toMatchObject([
      { groupId: 'id-group', groupIndex: 0, replyTo: 'q' },
      { groupId: 'id-group', groupIndex: 1, replyTo: 'q' },
    ]);
    const [part] = parts(afterDone(header[1] as Envelope, '22', deps));
    expect(part?.part).toEqual({
      groupId: 'id-group',
      index: 1,
      size: 2,
      bodyId: 'id-sum',
      taskId: 'id-20',
      result: '22',
    });
    const [body] = chordBody(
      part as ChordPartEntry,
      { results: ['12', '22'], isSigned: false },
      deps,
    );
    expect(body).toMatchObject({ id: 'id-sum', name: 'py.xsum' });
    expect(bodyOf(body)).toBe(
      `[[[12,22]],{},{"callbacks":null,"errbacks":null,"chain":[${rest}],"chord":null}]`,
    );
  });

  it('may be a group, a chain, or a chord with an empty header', () => {
    const inner = `{"task": "celery.chain", "args": [], "kwargs": {"tasks": [${sig('py.a', '[1]')}, ${sig('py.b', '[2]')}]}, "options": {}, "subtask_type": "chain", "immutable": false}`;
    const group = `{"task": "celery.group", "args": [], "kwargs": {"tasks": [${sig('py.g', '[]')}, ${inner}]}, "options": {"task_id": "g"}, "subtask_type": "group", "immutable": false}`;
    const empty = `{"task": "celery.chord", "args": [], "kwargs": {"kwargs": {}, "header": [], "body": ${XSUM}}, "options": {}, "subtask_type": "chord", "immutable": false}`;
    const entries = afterDone(made(embedOf({ callbacks: `[${group}, ${empty}]` })), '5', deps);
    expect(published(entries).map(({ name }) => name)).toEqual(['py.g', 'py.a', 'py.xsum']);
    const [first, chained, sum] = published(entries);
    expect(optionsOf(first)).toMatchObject({ groupId: 'g', groupIndex: 0 });
    // Only the last step of a chain in a group belongs to the group.
    expect(optionsOf(chained).groupId).toBeUndefined();
    const [last] = published(afterDone(chained as Envelope, '6', deps));
    expect([last?.name, optionsOf(last).groupId, optionsOf(last).groupIndex]).toEqual([
      'py.b',
      'g',
      1,
    ]);
    expect(bodyOf(last)).toContain('[[6,2],');
    expect(bodyOf(sum)).toContain('[[[]],');
  });
});

describe('the follow-ups of a task that was not done', () => {
  const chord = `${XSUM.slice(0, -1)}, "chord_size": 2}`;
  const embed = embedOf({
    callbacks: `[${sig('py.never', '[]')}]`,
    errbacks: `[${sig('py.alarm', '["ctx"]')}, ${sig('py.fixed', '[]', '{}', true)}]`,
    chord,
  });
  const envelope = made(embed, { groupId: 'g', groupIndex: 1 });

  it('are its error links, which get its id, and a failed part of its chord', () => {
    const entries = afterEnded({ envelope, how: 'dead', epoch: 3 }, deps);
    expect(published(entries).map(({ name, id }) => [name, id])).toEqual([
      ['py.alarm', derivedId('parent', 'errback:0:3')],
      ['py.fixed', derivedId('parent', 'errback:1:3')],
    ]);
    expect(bodyOf(published(entries)[0])).toContain('[["parent","ctx"],');
    expect(bodyOf(published(entries)[1])).toContain('[[],');
    expect(parts(entries).map(({ part }) => part)).toEqual([
      { groupId: 'g', index: 1, size: 2, taskId: 'parent', bodyId: 'id-sum', result: null },
    ]);
  });

  it.each(['cancelled', 'expired', 'discarded'] as const)(
    'are only a failed part of its chord when it was %s',
    how => {
      const entries = afterEnded({ envelope, how, epoch: 3 }, deps);
      expect(published(entries)).toEqual([]);
      expect(parts(entries)).toHaveLength(1);
    },
  );

  it('include a failed part of the chord that the last step of its chain belongs to', () => {
    const last = sig(
      'py.c',
      '[]',
      `{"task_id": "c", "group_id": "g", "group_index": 4, "chord": ${chord}}`,
    );
    const chained = made(embedOf({ chain: `[${last}, ${sig('py.b', '[]')}]` }));
    const [part] = parts(afterEnded({ envelope: chained, how: 'dead', epoch: 1 }, deps));
    expect(part?.part).toMatchObject({ groupId: 'g', index: 4, size: 2, result: null });
  });
});

describe('invalid follow-ups', () => {
  it.each([
    ['callbacks that are not a list', embedOf({ callbacks: '5' })],
    ['a signature without a task', embedOf({ callbacks: '[{"args": []}]' })],
    ['a step that is a string', embedOf({ chain: '["py.b"]' })],
    ['an embed that is a list', '[1]'],
    ['args that are an object', embedOf({ errbacks: '[{"task": "a", "args": {}}]' })],
    ['a chord that is a number', embedOf({ chord: '7' })],
    ['a chord without a body', embedOf({ chain: '[{"task": "celery.chord", "kwargs": {}}]' })],
  ])('are detected before the handler runs: %s', (_, embed) => {
    expect(() => checkFollowUps(made(embed, { groupId: 'g' }))).toThrow(TypeError);
  });

  const body = sig('py.total', '[]', '{"task_id": "body"}');
  it.each([
    [
      'an id with a NUL',
      embedOf({ callbacks: `[${sig('a', '[]', '{"task_id": "a\\u0000b"}')}]` }),
      {},
    ],
    ['a name with a NUL', embedOf({ chain: `[${sig('a\\u0000b', '[]')}]` }), {}],
    [
      'a queue with a NUL',
      embedOf({ errbacks: `[${sig('a', '[]', '{"queue": "\\u0000"}')}]` }),
      {},
    ],
    [
      'a queue too long for brokers',
      embedOf({ chain: `[${sig('a', '[]', `{"queue": "${'q'.repeat(256)}"}`)}]` }),
      {},
    ],
    [
      'a reply address too long for brokers',
      embedOf({ chain: `[${sig('a', '[]', `{"reply_to": "${'q'.repeat(256)}"}`)}]` }),
      {},
    ],
    [
      'a countdown beyond the largest date',
      embedOf({ chain: `[${sig('a', '[]', '{"countdown": 1e300}')}]` }),
      {},
    ],
    ['a group with a NUL', embedOf({ chord: body }), { groupId: 'a\0b', groupIndex: 0 }],
    ['an index that is too large', embedOf({ chord: body }), { groupId: 'g', groupIndex: 2 ** 31 }],
    ['a negative index', embedOf({ chord: body }), { groupId: 'g', groupIndex: -1 }],
  ])('include follow-ups that no store can hold: %s', (_, embed, options) => {
    expect(() => checkFollowUps(made(embed, options))).toThrow();
  });

  it('of a dead task are left out, and those of other tasks are sent', async () => {
    const isDead = (embed: string, options: EnvelopeOptions): AfterEntry => ({
      key: 'key',
      ended: { envelope: made(embed, options), how: 'dead', epoch: 1 },
    });
    const bad = [
      isDead(embedOf({ chord: body }), { groupId: 'a\0b', groupIndex: 0 }),
      isDead(embedOf({ chord: '{"task": "celery.chord", "kwargs": {}}' }), { groupId: 'g' }),
    ];
    const good = isDead(embedOf({ errbacks: `[${sig('py.alarm', '[]')}]` }), {});
    const sent: string[] = [];
    const broker = {
      publish: async (messages: readonly Envelope[]) =>
        messages.map(({ name }) => {
          sent.push(name);
          return { status: 'confirmed' } as const;
        }),
    };
    const refuse = (): Promise<never> => Promise.reject(new Error('no ledger takes this'));
    const ledger = { joinChord: refuse, bury: refuse };
    const guard = new DestinationGuard(broker, systemClock);
    const carried = await sendEntries([...bad, good], {
      guard,
      limitMs: 1e6,
      ledger,
      follow: deps,
    });
    expect(carried.done).toHaveLength(3);
    expect(sent).toEqual(['py.alarm']);
  });

  it('are not found in a body without follow-ups', () => {
    for (const embed of [embedOf({}), 'null', '{}']) checkFollowUps(made(embed));
  });
});

describe('with a signing key', () => {
  const keyring = new Keyring([{ id: 'k', secret: Buffer.alloc(32, 1) }], {
    unsignedQueues: { python: ['*'] },
  });
  const signed = (envelope: Envelope): Envelope => ({
    ...envelope,
    options: toBytes(
      JSON.stringify({
        ...readOptions(envelope),
        signature: keyring.sign({ ...envelope, options: readOptions(envelope) }, 0),
      }),
    ),
  });
  const unsigned = (envelope: Envelope): Envelope => ({ ...envelope, queue: 'python' });
  const withLinks = `{"callbacks":[{"task":"py.add","args":[],"kwargs":{},"options":{}}],"errbacks":[{"task":"py.add","args":[],"kwargs":{},"options":{}}],"chain":[{"task":"py.add","args":[],"kwargs":{},"options":{}}],"chord":null}`;

  it('the follow-up of a signed task is signed by the process that sends it, with all its options', () => {
    const next = published(afterDone(signed(made(withLinks)), '1', { ...deps, keyring }));
    expect(next.map(one => keyring.isSigned(one))).toEqual([true, true]);
    const [first] = next as [Envelope];
    expect(keyring.isSigned({ ...first, queue: 'elsewhere' })).toBe(false);
  });

  it('the follow-up of an unsigned task stays unsigned, however the task ended', () => {
    const envelope = unsigned(made(withLinks));
    const after = [
      ...afterDone(envelope, '1', { ...deps, keyring }),
      ...afterEnded({ envelope, how: 'dead', epoch: 1 }, { ...deps, keyring }),
    ];
    const next = published(after);
    expect(next).toHaveLength(3);
    for (const one of next) expect(readOptions(one).signature).toBeUndefined();
  });

  it('the body of a chord is signed only when all its results come from signed tasks', () => {
    const chord = `{"task":"py.xsum","args":[],"kwargs":{},"options":{"task_id":"sum"},"chord_size":2}`;
    const embed = `{"callbacks":null,"errbacks":null,"chain":null,"chord":${chord}}`;
    const header = { ...made(embed), options: toBytes('{"groupId":"g","groupIndex":0}') };
    const entryOf = (envelope: Envelope): ChordPartEntry =>
      parts(afterDone(envelope, '1', { ...deps, keyring }))[0] as ChordPartEntry;
    const [ours, theirs] = [entryOf(signed(header)), entryOf(unsigned(header))];
    expect([ours.part.isSigned, theirs.part.isSigned]).toEqual([true, undefined]);
    const isBodySigned = (entry: ChordPartEntry, isSigned: boolean): boolean[] =>
      chordBody(entry, { results: ['1', '2'], isSigned }, { ...deps, keyring }).map(one =>
        keyring.isSigned(one),
      );
    // The last part proves nothing about the parts before it.
    expect(isBodySigned(ours, false)).toEqual([false]);
    expect(isBodySigned(ours, true)).toEqual([true]);
  });

  describe('a part of a chord', () => {
    const body = '{"task":"py.xsum","args":[],"kwargs":{},"options":{},"chord_size":2}';
    const byGroup = `{"callbacks":null,"errbacks":null,"chain":null,"chord":${body}}`;
    const byLinks = (keys: Keyring): string => {
      const position = { groupId: 'g', index: 0, size: 2, body };
      const links = chordLinks(position, 'parent', { queue: 'chords', keyring: keys });
      return `{"callbacks":[${links.done}],"errbacks":[${links.failed}],"chain":null,"chord":null}`;
    };
    const groups = (envelope: Envelope, given: Partial<FollowDeps> = {}): string[] => {
      const all = { ...deps, keyring, ...given };
      const ended = { envelope, how: 'dead', epoch: 1 } as const;
      const entries = [...afterDone(envelope, '1', all), ...afterEnded(ended, all)];
      return parts(entries).map(({ part }) => part.groupId);
    };
    const header = (embed: string): Envelope => made(embed, { groupId: 'g', groupIndex: 0 });
    const unsignedGroup = derivedId('g', 'unsigned');

    it.each([
      ['as Celery writes it', header(byGroup)],
      ['reported by links', made(byLinks(NO_KEYS))],
    ])('of an unsigned task is not counted with parts of signed tasks, %s', (_, envelope) => {
      expect(groups(signed(envelope))).toEqual(['g', 'g']);
      expect(groups(unsigned(envelope))).toEqual([unsignedGroup, unsignedGroup]);
      expect(groups(envelope, { keyring: NO_KEYS })).toEqual(['g', 'g']);
    });

    it('that Python passed on is counted when its link proves that its chord was signed', () => {
      expect(groups(unsigned(made(byLinks(keyring))))).toEqual(['g', 'g']);
      const others = new Keyring([{ id: 'k', secret: Buffer.alloc(32, 2) }]);
      expect(groups(unsigned(made(byLinks(others))))).toEqual([unsignedGroup, unsignedGroup]);
    });

    it('keeps its group when Celery counts in the same ledger', () => {
      expect(groups(unsigned(header(byGroup)), { countsWithCelery: true })).toEqual(['g', 'g']);
    });
  });

  it('nothing follows a task without a valid signature, however it ends', () => {
    const ended = (envelope: Envelope): number =>
      afterEnded({ envelope, how: 'dead', epoch: 1 }, { ...deps, keyring }).length;
    const genuine = signed(made(withLinks));
    expect(ended(genuine)).toBe(1);
    expect(ended(made(withLinks))).toBe(0);
    expect(ended({ ...genuine, body: toBytes(`[[2], {}, ${withLinks}]`) })).toBe(0);
  });
});
