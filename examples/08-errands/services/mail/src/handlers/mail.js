const { announce, sendReceipt } = require('@errands/contracts');
const { outlast } = require('../outlast.js');

exports.sendReceiptHandler = outlast.handler(sendReceipt, async ({ orderId }, ctx) => {
  console.log(`mail for order ${orderId}, key ${ctx.id}`);
  return { mailId: `mail-${orderId}` };
});

exports.announceHandler = outlast.handler(announce, async text => `announced: ${text}`);
