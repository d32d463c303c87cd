import { isEmbedded } from '../config/database-url.ts';
import { outlastError } from '../errors/error.ts';
import { cancelTask } from '../outbox/cancel-task.ts';
import type { SentCall } from '../outbox/compose-call.ts';
import { createGroupHandle } from '../result/group-handle.ts';
import {
  createHandle,
  type HandleDeps,
  type HandleOrigin,
  type TaskHandle,
} from '../result/result-handle.ts';
import type { Task } from '../task/define-task.ts';
import type { Context } from '../context/context.ts';
import { revokeElsewhere } from '../context/revoke-elsewhere.ts';

/** Creates the handles that an instance returns. */
export class TaskHandles {
  readonly #deps: HandleDeps;
  readonly #isEmbedded: boolean;

  constructor(context: Context) {
    this.#isEmbedded = isEmbedded(context.config.database);
    this.#deps = {
      clock: context.runtime.clock,
      results: () => context.results(),
      cancel: async (task, id) => {
        const status = await cancelTask(id, await context.adminStores());
        if (status !== 'ok') return;
        const { name, contract } = task;
        context.runtime.emit('task:cancelled', { id, name, queue: contract.queue });
        await revokeElsewhere(context, id);
      },
    };
  }

  of(task: Task, origin: HandleOrigin): TaskHandle {
    return createHandle(task, origin, this.#deps);
  }

  ofCall(sent: SentCall, isUncommitted: () => boolean): TaskHandle {
    const handle = this.#ofCall(sent, isUncommitted);
    return this.#isEmbedded ? refuseInside(handle, isUncommitted) : handle;
  }

  #ofCall(sent: SentCall, isUncommitted: () => boolean): TaskHandle {
    if (!('members' in sent)) {
      const { id, isNew, before } = sent;
      return this.of(sent.task, { id, isNew, before, isUncommitted });
    }
    const members = sent.members.map(member => this.of(member.task, { ...member, isUncommitted }));
    return createGroupHandle(sent, members, this.#deps);
  }
}

/** The one backend of an embedded database is busy with the open transaction: a read now would wait for itself. */
function refuseInside(handle: TaskHandle, isUncommitted: () => boolean): TaskHandle {
  return {
    ...handle,
    result: async options => {
      if (!isUncommitted()) return await handle.result(options);
      throw outlastError('ERR_RESULT_BEFORE_COMMIT', {
        message: `${handle.id} is still in an open transaction, so nobody can run it yet`,
        hint: 'Ask for the result after COMMIT.',
        fields: { id: handle.id },
      });
    },
  };
}
