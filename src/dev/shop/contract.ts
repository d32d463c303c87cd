import { task, unchecked, type StandardSchema, type Task } from '../../task/index.ts';

export interface OrderInput {
  readonly orderId: string;
}

export interface ReceiptResult {
  readonly receipt: string;
}

/** The progress of a receipt: what a later run finds when this one is killed. */
export interface ReceiptProgress {
  /** Steps that are done. */
  readonly step: number;
  readonly of: number;
  /** The next step, for the page. */
  readonly label: string;
}

interface ReceiptShape {
  readonly input: OrderInput;
  readonly parsed: OrderInput;
  readonly returned: ReceiptResult;
  readonly result: ReceiptResult;
}

export const sendReceipt: Task<ReceiptShape> = task('shop.send-receipt', {
  input: orderInput(),
  result: unchecked<ReceiptResult>(),
});

/** The task id is derived from the order id, so that each can be found from the other. */
export function receiptTaskId(orderId: string): string {
  return `receipt-${orderId}`;
}

/** Written by hand: the package has no schema library. Yours may be zod, valibot or arktype. */
function orderInput(): StandardSchema<OrderInput, OrderInput> {
  const isOrderId = (value: unknown): value is string =>
    typeof value === 'string' && /^\d{1,15}$/.test(value);
  return {
    '~standard': {
      version: 1,
      vendor: 'outlast-shop',
      validate: value => {
        const orderId = (value as { readonly orderId?: unknown } | null)?.orderId;
        return isOrderId(orderId)
          ? { value: { orderId } }
          : { issues: [{ message: 'give the number of an order as text', path: ['orderId'] }] };
      },
    },
  };
}
