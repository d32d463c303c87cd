import { advertise } from '@errands/contracts';
import { isOutlastError } from 'outlast';

export async function limits(_, outlast) {
  const campaign = `spring-${Date.now()}`;
  await outlast.push(advertise, { campaign });
  await outlast.push(advertise, { campaign });
  try {
    await outlast.push(advertise, { campaign });
  } catch (error) {
    if (!isOutlastError(error, 'ERR_ADMISSION_REJECTED')) throw error;
    console.log('over the rate:', error.code, error.retryAfterMs > 0);
  }
}
