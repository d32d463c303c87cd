import { isOutlastError, outlastError, type OutlastError } from '../../errors/error.ts';
import type { RabbitHost } from '../../config/amqp-url.ts';

type Scope = 'message' | 'channel' | 'connection';

interface Trouble {
  readonly message: string;
  readonly hint: string;
  readonly isPermanent: boolean;
}

const CERTIFICATE = /^(CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|ERR_TLS_CERT|HOSTNAME_MISMATCH)/;
const MISSING_FILE = new Set(['ENOENT', 'EACCES', 'EISDIR']);

const codeOf = (error: unknown): unknown => (error as { readonly code?: unknown }).code;

/** The server's reply code, if the error has one. */
export function replyCode(error: unknown): number | null {
  const code = codeOf(error);
  if (typeof code === 'number') return code;
  // During the handshake amqplib puts it in the message only.
  const quoted =
    error instanceof Error ? /: (\d{3}) \([A-Z-]+\)/.exec(error.message)?.[1] : undefined;
  return quoted === undefined ? null : Number(quoted);
}

/** Why a connection attempt failed; `isPermanent` where waiting does not help. */
export function connectFailure(error: unknown, host: RabbitHost): OutlastError {
  if (isOutlastError(error)) return error;
  const address = `${host.hostname}:${host.port}`;
  const { message, hint, isPermanent } = explain(error, host);
  return unavailable('connection', `RabbitMQ at ${address} ${message}`, {
    hint,
    isPermanent,
    error,
  });
}

function explain(error: unknown, host: RabbitHost): Trouble {
  const code = codeOf(error);
  const text = error instanceof Error ? error.message : String(error);
  if (replyCode(error) === 403) {
    return {
      message: `refuses user ${host.username}: wrong user or password`,
      hint: 'Correct user and password in OUTLAST_BROKER_URL; trying again does not help.',
      isPermanent: true,
    };
  }
  // The reason is in a frame that amqplib names but does not show; only an unusable virtual host fails this way.
  if (text.startsWith('Expected ConnectionOpenOk')) {
    return {
      message: `refuses virtual host ${host.vhost}: it does not exist, or ${host.username} may not use it`,
      hint: 'Create it (rabbitmqctl add_vhost, set_permissions), or correct OUTLAST_BROKER_URL; trying again does not help.',
      isPermanent: true,
    };
  }
  if (typeof code === 'string' && CERTIFICATE.test(code)) {
    return {
      message: `has a certificate that is not trusted: ${text} (${code})`,
      hint: 'Renew the certificate, or name its authority with ?cacertfile= or NODE_EXTRA_CA_CERTS; trying again does not help.',
      isPermanent: true,
    };
  }
  if (typeof code === 'string' && MISSING_FILE.has(code)) {
    return {
      message: `cannot be asked: a certificate cannot be read (${text})`,
      hint: 'Correct the files in OUTLAST_BROKER_URL; trying again does not help.',
      isPermanent: true,
    };
  }
  return {
    message: `cannot be reached: ${text}`,
    hint: 'Check that it runs and that OUTLAST_BROKER_URL names it.',
    isPermanent: false,
  };
}

/** A connection or channel that was open and is gone. */
export function lost(scope: Scope, error: unknown): OutlastError {
  const text = error instanceof Error ? error.message : 'it was closed';
  return unavailable(scope, `the ${scope} to RabbitMQ is gone: ${text}`, {
    hint: 'Nothing to do: it is opened again.',
    isPermanent: false,
    error,
  });
}

export function unavailable(
  scope: Scope,
  message: string,
  more: { readonly hint: string; readonly isPermanent: boolean; readonly error?: unknown },
): OutlastError {
  const { hint, isPermanent, error: cause } = more;
  return outlastError('ERR_BROKER_UNAVAILABLE', {
    message,
    hint,
    fields: { scope, isPermanent },
    ...(cause === undefined ? {} : { cause }),
  });
}
