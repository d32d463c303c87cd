import { intervalUs, type Rate } from '../task/admission-rule.ts';

/** The outcome of one request. */
export interface Taken {
  readonly granted: number;
  /** The state afterwards; unchanged when nothing was granted. */
  readonly tatUs: number;
  /** Until one more would be granted; 0 when all were. */
  readonly waitUs: number;
}

/** A state further ahead than a rate can reach belongs to another rate, or to a clock that was set back. */
const SLACK_US = 1_000_000;

/**
 * The generic cell rate algorithm. The state is one time: when the bucket would be full again. Each grant moves it on by
 * an interval, and it may be ahead of the clock by a burst. Nothing is counted within a window, so there is no edge at
 * which two bursts could meet; a refusal moves nothing.
 */
export function takeFrom(stateUs: number, nowUs: number, rate: Rate, count: number): Taken {
  const interval = intervalUs(rate);
  const fullUs = nowUs + rate.burst * interval;
  const knownUs = stateUs > fullUs + SLACK_US ? fullUs : stateUs;
  const baseUs = Math.max(knownUs, nowUs);
  const granted = Math.min(count, Math.max(0, Math.floor((fullUs - baseUs) / interval)));
  const tatUs = granted > 0 ? baseUs + granted * interval : knownUs;
  const waitUs = granted === count ? 0 : Math.max(tatUs, nowUs) + interval - fullUs;
  return { granted, tatUs, waitUs };
}
