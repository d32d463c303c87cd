/** Why a relay has given a row up. */
export type LetterReason = 'ERR_ATTEMPTS_SPENT' | 'ERR_UNDECODABLE';

const UNDECODABLE = 'ERR_UNDECODABLE: ';

/** The error of a row that can never be published, as its dead letter keeps it: there is no column for the reason. */
export const undecodable = (error: string): string => `${UNDECODABLE}${error}`;

export const letterReason = (error: string): LetterReason =>
  error.startsWith(UNDECODABLE) ? 'ERR_UNDECODABLE' : 'ERR_ATTEMPTS_SPENT';
