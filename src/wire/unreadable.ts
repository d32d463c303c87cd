type Refusal = 'ERR_UNDECODABLE' | 'ERR_DIGEST' | 'ERR_MESSAGE_TOO_LARGE';

/** Why a message cannot be read. Never leaves the decoder. */
export class Unreadable extends Error {
  readonly reason: Refusal;

  constructor(why: string, reason: Refusal = 'ERR_UNDECODABLE') {
    super(why);
    this.reason = reason;
  }
}

export const tooLarge = (what: string, maxBytes: number): Unreadable =>
  new Unreadable(`it ${what}, and ${maxBytes} are taken at most`, 'ERR_MESSAGE_TOO_LARGE');
