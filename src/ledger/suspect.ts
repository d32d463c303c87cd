/**
 * After a process died with many tasks, one of them may have killed it, and it is unknown which. Run together again, the
 * culprit would use up the others' budgets; run one by one, the innocent would wait for each other. So the first crash
 * only costs a second try; a task with two crashes, or with none to spare, is a suspect, and no two suspects run at the
 * same time: the next death then points to one task.
 */
export function isSuspect(crashes: number, crashBudget: number): boolean {
  return crashes > 0 && crashes >= Math.min(2, crashBudget);
}
