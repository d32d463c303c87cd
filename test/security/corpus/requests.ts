/** What a probe never sends to a health port. Each is written as it is, and the connection then left open. */
export const BAD_REQUESTS: readonly (readonly [what: string, bytes: string])[] = [
  ['nothing', ''],
  ['half a request line', 'GET /rea'],
  ['half a header', 'GET /ready HTTP/1.1\r\nX-A: '],
  ['headers without an end', 'GET /ready HTTP/1.1\r\nHost: x\r\n'],
  ['a header of 64 kB', `GET /ready HTTP/1.1\r\nHost: x\r\nX-A: ${'x'.repeat(65_536)}\r\n\r\n`],
  [
    'a body that does not come',
    'POST /ready HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n',
  ],
  [
    'chunks without an end',
    'GET /ready HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n',
  ],
  ['an upgrade', 'GET /ready HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n'],
  ['no HTTP at all', '\u0016\u0003\u0001\u0000\u0000'],
];
