// Written by scripts/write-api.mjs from the comments in src.
import { bury, chain, chord, createOutlast, currentContext, currentTask, defineConfig, discard, group, isOutlastError, python, retryIn, runOnce, shutdownSignal, startRelay, startResurrector, startWorker, task, unchecked, withContext } from 'outlast';
import { announce, app, chargeHandler, config, countLinks, countWords, error, fetchPage, first, fromPg, input, listPages, logger, longest, order, outlast, pool, publish, reply, report, resize, second, site, urls, z } from '../stages/common.ts';

export async function example1(): Promise<unknown> {
  const sendReceipt = task('shop.send-receipt', {
    input: z.object({ orderId: z.string() }), result: z.object({ mailId: z.string() }), timeout: '30s',
  });
  return [sendReceipt];
}

export async function example2(): Promise<unknown> {
  chain(resize.with({ args: ['a.png', 800] }), publish.after({ page: '/' }), announce);
  return [];
}

export async function example3(): Promise<unknown> {
  chain(listPages.with({ site }), group([countWords, countLinks]), report);
  return [];
}

export async function example4(): Promise<unknown> {
  chord(urls.map(url => fetchPage.with({ url })), longest);
  return [];
}

export async function example5(): Promise<unknown> {
  group([publish.with(first), publish.with(second)]);
  return [];
}

export async function example6(): Promise<unknown> {
  await outlast.push(resize, { args: ['a.png', 800], kwargs: { taken: python.date('2026-03-01') } });
  return [];
}

export async function example7(): Promise<unknown> {
  task('billing.charge', { result: unchecked<{ chargeId: string }>() });
  return [];
}

export async function example8(): Promise<unknown> {
  return defineConfig({ tasks: ['./src/handlers/*'], worker: { concurrency: 20 } });
}

export async function example9(): Promise<unknown> {
  const outlast = createOutlast({ ...config, adapter: fromPg(pool) });
  return [outlast];
}

export async function example10(): Promise<unknown> {
  await runOnce(outlast, { tasks: [chargeHandler], maxTime: '50s' });
  return [];
}

export async function example11(): Promise<unknown> {
  const relay = await startRelay(outlast, { signal: shutdownSignal(), batchSize: 500 });
  await relay.finished;
  return [relay];
}

export async function example12(): Promise<unknown> {
  const recovery = await startResurrector(outlast, { signal: shutdownSignal() });
  await recovery.finished;
  return [recovery];
}

export async function example13(): Promise<unknown> {
  const worker = await startWorker(outlast, { tasks: [chargeHandler], concurrency: 20 });
  await worker.stop(); // drains
  return [worker];
}

export async function example14(): Promise<unknown> {
  const signal = shutdownSignal();
  const worker = await startWorker(outlast, { signal, tasks: [chargeHandler] });
  return [signal, worker];
}

export async function example15(): Promise<unknown> {
  logger.info({ ...currentContext() }, 'charging');
  return [];
}

export async function example16(): Promise<unknown> {
  app.use((req, _res, next) => withContext({ requestId: req.id }, next));
  return [];
}

export async function example17(): Promise<unknown> {
  logger.info({ task: currentTask()?.id }, 'charging');
  return [];
}

export async function example18(): Promise<unknown> {
  if (input.cents < 0) return bury('negative amount');
  return undefined;
}

export async function example19(): Promise<unknown> {
  if (order.cancelled) return discard('order cancelled');
  return undefined;
}

export async function example20(): Promise<unknown> {
  if (reply === 'busy') return retryIn('5m', 'gateway busy');
  return undefined;
}

export async function example21(): Promise<unknown> {
  if (isOutlastError(error, 'ERR_ADMISSION_REJECTED')) console.log(error.key, error.retryAfterMs);
  return undefined;
}

export async function example22(): Promise<unknown> {
  if (isOutlastError(error, 'ERR_UNKNOWN_OPTION')) console.log(error.option, error.nearest);
  return undefined;
}

export async function example23(): Promise<unknown> {
  if (isOutlastError(error) && error.name === 'InvariantError') console.log('please report', error.message);
  return undefined;
}

export async function example24(): Promise<unknown> {
  if (isOutlastError(error, 'ERR_PAYLOAD_TOO_LARGE')) console.log(error.bytes, error.maxBytes);
  return undefined;
}

export async function example25(): Promise<unknown> {
  if (isOutlastError(error, 'ERR_RESULT_TIMEOUT')) console.log(error.state);
  return undefined;
}

export async function example26(): Promise<unknown> {
  if (isOutlastError(error)) console.log(error.code, error.hint);
  return undefined;
}

export async function example27(): Promise<unknown> {
  if (isOutlastError(error) && error.name === 'OwnershipError') console.log('another run has it');
  return undefined;
}

export async function example28(): Promise<unknown> {
  if (isOutlastError(error) && error.name === 'RejectedTaskError') console.log(error.code, error.hint);
  return undefined;
}

export async function example29(): Promise<unknown> {
  if (isOutlastError(error) && error.name === 'UnavailableError') console.log('later', error.code);
  return undefined;
}

export async function example30(): Promise<unknown> {
  if (isOutlastError(error, 'ERR_PAYLOAD_TOO_LARGE')) console.log(error.bytes);
  return undefined;
}
