const { task } = require('outlast/task');
const { z } = require('zod');

exports.sendReceipt = task('shop.send-receipt', {
  input: z.object({ orderId: z.string() }),
  result: z.object({ mailId: z.string() }),
  timeout: '30s',
});
