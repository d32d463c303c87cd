/** Capacity for one task, reserved before the transaction that sends it; kept for 30 s. */
export interface Permit {
  /** The name of the task. */
  readonly task: string;
  /** Gives the capacity back, if it was not used and no other task has taken any since; otherwise it recovers with time. */
  cancel(): Promise<void>;
}
