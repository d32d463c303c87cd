const { mail } = require('../mail.js');
const { outlast } = require('../outlast.js');
const { sendReceipt } = require('../tasks.js');

exports.sendReceiptHandler = outlast.handler(sendReceipt, async ({ orderId }, ctx) => {
  const mailId = await mail(orderId, { idempotencyKey: ctx.id, signal: ctx.signal });
  return { mailId };
});
