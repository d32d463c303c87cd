exports.mail = async (orderId, { idempotencyKey, signal }) => {
  signal.throwIfAborted();
  console.log(`mail for order ${orderId}, key ${idempotencyKey}`);
  return `mail-${orderId}`;
};
