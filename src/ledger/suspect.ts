/**
 * After a process died with many tasks, one of them may have killed it, and nobody knows which. Run together again
 * the culprit would take the others' budgets with it; run one by one the innocent would wait for each other. So the
 * first crash costs nothing but a second try; a task with two crashes, or with no crash to spare, is a suspect and runs
 * beside no other suspect: then the next death has one name on it.
 */
export function isSuspect(crashes: number, crashBudget: number): boolean {
  return crashes > 0 && crashes >= Math.min(2, crashBudget);
}
