// src/mail.mjs: stands for a mail service that takes an idempotency key
export async function mail(orderId, { idempotencyKey, signal }) {
  signal.throwIfAborted();
  console.log(`mail for order ${orderId}, key ${idempotencyKey}`);
  return `mail-${orderId}`;
}
