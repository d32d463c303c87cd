import { describe, expect, it } from 'vitest';
import { refuseOldServer } from './mysql-database.ts';

describe('a server version', () => {
  it.each([
    '10.6.0-MariaDB',
    '10.11.19-MariaDB-0+deb12u1',
    '11.4.2-MariaDB-log',
    '8.0.1',
    '8.0.36-28',
    '8.4.0',
    '9.1.0',
  ])('%s is accepted', version => {
    expect(() => refuseOldServer(version)).not.toThrow();
  });

  it.each([
    '10.5.29-MariaDB',
    '5.5.68-MariaDB',
    '8.0.0-dmr',
    '5.7.44-log',
    '5.6.51',
    'what is this',
  ])('%s is refused', version => {
    expect(() => refuseOldServer(version)).toThrow(
      expect.objectContaining({ code: 'ERR_CONFIG_TIER', name: 'ConfigError' }) as Error,
    );
  });
});
